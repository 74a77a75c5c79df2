/* Counts blocks of memory, by taking the place of the C library's functions in the core and in the test. */

#ifndef TESTBED_TEST_ALLOCATIONS_H
#define TESTBED_TEST_ALLOCATIONS_H

#include <stdint.h>

struct allocations {
    int64_t asked; /* calls that want memory */
    int64_t blocks; /* that have not been given back */
};

extern struct allocations allocations;

#endif
