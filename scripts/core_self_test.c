/* Loads the compiled core at the path given, as Python does, and has it carry packets over links that lose, delay and
   queue them. Its times must be those of every other machine to the last bit: a compiler that rounds a product and a sum
   as one gives others. Prints what was found. */

#include "../testbed/engines/fabric/native_plane/core/core.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { NODES = 2, LINKS = 2, TABLE = 449, FRAMES = 1000, PIECES = 5 };

static const uint64_t EXPECTED = UINT64_C(0x1DF2E5463C6997C4);

static const struct core_wire WIRES[LINKS] = {
    {.byte_s = 8 / 13e6, .latency_s = 0.0071, .jitter_s = 0.0013, .loss = 0.03, .limit_s = 0.02, .drain = 0.7, .is_up = 1},
    {.byte_s = 8 / 17e6, .latency_s = 0.0113, .jitter_s = 0.0017, .loss = 0.01, .limit_s = 0.03, .drain = 0.9, .is_up = 1},
};

/* ISO C has no conversion from `dlsym` to a function. */
typedef union {
    void *symbol;
    uint32_t (*abi)(void);
    const char *(*compiler)(void);
    struct model *(*begin)(const struct core_model_setup *);
    int64_t (*offer)(struct model *, double, int64_t, int64_t, const uint32_t *, int64_t);
    int64_t (*advance)(struct model *, double);
    const struct core_group *(*groups)(const struct model *);
    void (*forget)(struct model *);
} Found;

static void *library;

static Found find(const char *name)
{
    return (Found){.symbol = dlsym(library, name)};
}

/* A digest of all arrivals at the second of two nodes with a link either way. */
static uint64_t schedule(void)
{
    static const int32_t via[] = {-1, 0, 1, -1}, edge_from[] = {0, 1}, edge_link[] = {0, 1};
    static const int32_t rank[] = {0, 1}, none[] = {CORE_NOT_A_STUB, CORE_NOT_A_STUB};
    static const uint64_t keys[] = {UINT64_C(0x9D5C1F0B3A7E4862), UINT64_C(0x1F83D9ABFB41BD6B)};
    static const double nothing_s[LINKS];
    static const uint8_t is_cut[NODES];
    static const uint32_t sizes[PIECES] = {1500, 1500, 1500, 1500, 777};
    int64_t table[TABLE];
    for (int64_t at = 0; at < TABLE; at++)
        table[at] = (TABLE - 1 - at) * INT64_C(54321987);
    const struct core_routes routes = {NODES, NODES, via, edge_from, edge_link, rank, rank, none, none};
    const struct core_change first = {.wires = WIRES, .lookahead_s = nothing_s, .to_end_s = nothing_s,
                                      .has_new_paths = 1, .routes = &routes, .is_cut = is_cut};
    const struct core_model_setup setup = {.nodes = NODES, .links = LINKS, .loss_keys = keys, .jitter_keys = keys,
                                           .normal_table = table, .window_s = 2e-4, .longest_window_s = 1e-3,
                                           .time_scale = 1.0, .in_order = 1, .first = &first};
    struct model *model = find("core_model_new").begin(&setup);
    uint64_t digest = 0;
    for (int frame = 1; frame <= FRAMES; frame++) {
        double now_s = frame * 0.0037;
        find("core_model_offer").offer(model, now_s, frame % 2, 1 - frame % 2, sizes, PIECES);
        int64_t count = find("core_model_advance").advance(model, now_s);
        const struct core_group *groups = find("core_model_groups").groups(model);
        for (int64_t at = 0; at < count; at++) {
            uint64_t bits;
            memcpy(&bits, &groups[at].due_s, sizeof bits);
            digest = (digest ^ bits ^ (uint64_t)groups[at].pieces) * UINT64_C(0x100000001B3);
        }
        find("core_model_forget_groups").forget(model);
    }
    return digest;
}

int main(int count, char **words)
{
    library = count == 2 ? dlopen(words[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\n", count == 2 ? dlerror() : "usage: core_self_test LIBRARY");
        return 1;
    }
    Found abi = find("core_abi");
    if (abi.symbol == NULL || abi.abi() != CORE_ABI) {
        fprintf(stderr, "another interface than %u\n", CORE_ABI);
        return 1;
    }
    uint64_t found = schedule();
    if (found != EXPECTED) {
        fprintf(stderr, "its packets arrive at other times: %016llX\n", (unsigned long long)found);
        return 1;
    }
    printf("its core has interface %u, by %s; its packets arrive when they should\n", CORE_ABI,
           find("core_compiler").compiler());
    return 0;
}
