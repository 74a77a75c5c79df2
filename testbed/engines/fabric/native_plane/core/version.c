/* What this library is: compared with what the Python side expects, and printed by `testbed doctor`. */

#include "core.h"

#define TEXT(number) LITERAL(number)
#define LITERAL(number) #number

uint32_t core_abi(void)
{
    return CORE_ABI;
}

const uint32_t *core_sizes(void)
{
    static const uint32_t sizes[] = {
        sizeof(struct core_wire),        sizeof(struct core_routes),      sizeof(struct core_change),
        sizeof(struct core_model_setup), sizeof(struct core_group),       sizeof(struct core_link_counts),
        sizeof(struct core_pair_counts), sizeof(struct core_totals),      sizeof(struct core_forwarder_setup),
        sizeof(struct core_delivery),    sizeof(struct core_delay_limits), sizeof(struct core_delays),
        sizeof(struct core_port_figures), sizeof(struct core_lost),
    };
    return sizes;
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
