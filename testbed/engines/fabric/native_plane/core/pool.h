/* Memory blocks by size class. A block given back is used again, so the steady state calls no allocator. */

#ifndef TESTBED_POOL_H
#define TESTBED_POOL_H

#include <stddef.h>

enum { POOL_CLASSES = 11 };

struct pool {
    struct pool_block *free[POOL_CLASSES];
    size_t kept_bytes[POOL_CLASSES];
};

/* A block of at least so many bytes, with any contents. Ends the process where there is no memory. */
void *pool_take(struct pool *pool, size_t bytes);

/* How many bytes such a block has. */
size_t pool_block_bytes(size_t bytes);

/* Gives back a block that was taken with the same size. */
void pool_give(struct pool *pool, void *block, size_t bytes);

/* Frees every block that has been given back. */
void pool_empty(struct pool *pool);

/* Memory outside pools, such as arrays that only ever grow. Both end the process where there is none. */
void *memory_new(size_t count, size_t bytes);
void *memory_grown(void *old, size_t count, size_t bytes);

/* Says on standard error why the process cannot go on, and ends it. */
_Noreturn void fail(const char *why);

#endif
