/* What this library is. */

#pragma once

#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

/* The number of this interface: raised whenever a function or structure that Python uses changes. */
EXPORTED uint32_t core_abi(void);

/* The digest of the sources and flags that the library was compiled from. */
EXPORTED const char *core_sources(void);

/* The compiler and its version. */
EXPORTED const char *core_compiler(void);
