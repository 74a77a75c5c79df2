#include "pool.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The last class holds the largest frame, virtio-net header included. */
static const size_t CLASS_BYTES[POOL_CLASSES] = {64,   128,  256,   512,   1024, 2048,
                                                 4096, 8192, 16384, 32768, 66048};
/* What a class keeps for later; the rest goes back, so that a flood does not hold memory for ever. */
static const size_t MOST_KEPT_BYTES = 32u << 20;

struct pool_block {
    struct pool_block *next;
};

_Noreturn void fail(const char *why)
{
    (void)fprintf(stderr, "fabric core: %s\n", why);
    abort();
}

void *memory_new(size_t count, size_t bytes)
{
    void *found = calloc(count ? count : 1, bytes);
    if (!found)
        fail("out of memory");
    return found;
}

void *memory_grown(void *old, size_t count, size_t bytes)
{
    void *found = count > SIZE_MAX / bytes ? NULL : realloc(old, count * bytes);
    if (!found)
        fail("out of memory");
    return found;
}

static int class_of(size_t bytes)
{
    for (int class = 0; class < POOL_CLASSES; class++)
        if (bytes <= CLASS_BYTES[class])
            return class;
    return -1;
}

size_t pool_block_bytes(size_t bytes)
{
    int class = class_of(bytes);
    return class < 0 ? bytes : CLASS_BYTES[class];
}

void *pool_take(struct pool *pool, size_t bytes)
{
    int class = class_of(bytes);
    if (class < 0)
        return memory_new(1, bytes);
    struct pool_block *block = pool->free[class];
    if (!block)
        return memory_new(1, CLASS_BYTES[class]);
    pool->free[class] = block->next;
    pool->kept_bytes[class] -= CLASS_BYTES[class];
    return block;
}

void pool_give(struct pool *pool, void *block, size_t bytes)
{
    int class = class_of(bytes);
    if (class < 0 || pool->kept_bytes[class] + CLASS_BYTES[class] > MOST_KEPT_BYTES) {
        free(block);
        return;
    }
    struct pool_block *kept = block;
    kept->next = pool->free[class];
    pool->free[class] = kept;
    pool->kept_bytes[class] += CLASS_BYTES[class];
}

void pool_empty(struct pool *pool)
{
    for (int class = 0; class < POOL_CLASSES; class++) {
        while (pool->free[class]) {
            struct pool_block *block = pool->free[class];
            pool->free[class] = block->next;
            free(block);
        }
        pool->kept_bytes[class] = 0;
    }
}
