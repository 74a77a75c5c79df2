/* A few draws and one small schedule, as the specification has them: a compiler that fuses products and sums, or a
 * machine that rounds otherwise, is found out without Python. The table is a line: it comes from Python otherwise. */

#include "core.h"
#include "draws.h"

#include <stddef.h>

enum { PIECES = 12, GROUPS = 4, BAD_WORD = 1, BAD_NORMAL, BAD_TIMES, BAD_COUNTS };

static const double DUE_S[] = {0x1.83261cb155608p-6, 0x1.84cdbd15a2c66p-6, 0x1.a9e9bb21faca2p-6, 0x1.c8df8e51e9185p-6};

static int test_draws(const int64_t *table)
{
    struct stream words = {.key = 1234567}, normals = words, least = {.key = UINT64_C(7046029254386353131)};
    if (draw_word(&words) != UINT64_C(0x599ED017FB08FC85) || draw_uniform(&least) != 0x1p-53)
        return BAD_WORD;
    return draw_normal(&normals, table) == 160975867 * 0x1p-32 ? 0 : BAD_NORMAL;
}

/* From node 0 over a vertex to node 1, by two links with loss and jitter; the queue of the first has no room for all. */
static int test_schedule(const int64_t *table)
{
    const int32_t via[] = {CORE_NO_LINK}, trees[] = {0, 0}, out[] = {0, CORE_NO_LINK}, in[] = {CORE_NO_LINK, 1};
    const struct core_routes routes = {1, 1, via, NULL, NULL, trees, trees, out, in};
    const struct core_wire wire = {8e-7, 0.01, 0.003, 0.3, 0.006 + 1e-9, 0.9, 1}, wires[] = {wire, wire};
    const int32_t links[] = {0, 1};
    const double nothing_s[] = {0.0, 0.0};
    const uint8_t is_cut[] = {0, 0};
    const struct core_change first = {2, links, wires, nothing_s, nothing_s, 1, &routes, 0, NULL, is_cut};
    const uint64_t losses[] = {1282, 1283}, jitters[] = {1292, 1293};
    const struct core_model_setup setup = {2, 2, losses, jitters, table, 1e-9, 0.0, 1e-9, 1.0, 1, &first};
    struct model *model = core_model_new(&setup);
    uint32_t sizes[PIECES];
    for (uint32_t at = 0; at < PIECES; at++)
        sizes[at] = 1000 + 100 * at;
    (void)core_model_offer(model, 0.0, 0, 1, sizes, PIECES);
    int wrong = core_model_advance(model, 1.0) == GROUPS ? 0 : BAD_TIMES;
    for (int at = 0; at < GROUPS && !wrong; at++)
        wrong = core_model_groups(model)[at].due_s == DUE_S[at] ? 0 : BAD_TIMES;
    struct core_link_counts counts[2];
    core_model_links(model, counts);
    if (!wrong && (counts[0].dropped_queue != 5 || counts[0].dropped_loss != 2 || counts[1].dropped_loss != 1))
        wrong = BAD_COUNTS;
    core_model_free(model);
    return wrong;
}

int core_selftest(void)
{
    int64_t table[NORMAL_ENTRIES];
    for (int at = 0; at < NORMAL_ENTRIES; at++)
        table[at] = (int64_t)(NORMAL_ENTRIES - 1 - at) << 24;
    int wrong = test_draws(table);
    return wrong ? wrong : test_schedule(table);
}
