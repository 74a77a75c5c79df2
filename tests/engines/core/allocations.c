#include "allocations.h"

#include <stdlib.h>

struct allocations allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void __real_free(void *block);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void __wrap_free(void *block);

void *__wrap_malloc(size_t bytes)
{
    allocations.asked++;
    allocations.blocks++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    allocations.asked++;
    allocations.blocks++;
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    allocations.asked++;
    allocations.blocks += !old;
    return __real_realloc(old, bytes);
}

void __wrap_free(void *block)
{
    allocations.blocks -= block != NULL;
    __real_free(block);
}
