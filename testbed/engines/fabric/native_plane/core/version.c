/* What this library is: compared with what the Python side expects, and printed by `testbed doctor`. */

#include "core.h"

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
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "gcc " __VERSION__;
#else
    return "another compiler";
#endif
}
