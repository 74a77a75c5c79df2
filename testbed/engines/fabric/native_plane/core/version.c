/* What this library is: compared with what the Python side expects, and printed by `testbed doctor`. */

#include "core.h"

#define TEXT(number) LITERAL(number)
#define LITERAL(number) #number

uint32_t core_abi(void)
{
    return CORE_ABI;
}

const char *core_sources(void)
{
    return CORE_SOURCES;
}

const char *core_compiler(void)
{
#if defined(__clang__)
    return "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__);
#elif defined(__GNUC__)
    return "gcc " TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__) "." TEXT(__GNUC_PATCHLEVEL__);
#else
    return "another compiler";
#endif
}
