/* A small network for tests of the core in C: what Python works out from a topology, and changes of it.
 *
 * Two shapes: nodes that are stubs of two routers with two links either way between them, and a ring of nodes. Each has
 * two sets of routes.
 */

#ifndef TESTBED_TEST_NETWORK_H
#define TESTBED_TEST_NETWORK_H

#include "../../../testbed/engines/fabric/native_plane/core/core.h"

#include <stdbool.h>

enum { MOST_NODES = 5, MOST_VERTICES = MOST_NODES + 2, MOST_LINKS = 2 * MOST_NODES + 4, ROUTE_SETS = 2 };

struct network {
    int nodes, links, vertices, edges;
    bool is_ring;
    int from[MOST_LINKS], to[MOST_LINKS]; /* nodes, then routers */
    struct core_wire wires[MOST_LINKS];   /* without regard to who is cut off */
    uint8_t is_cut[MOST_NODES];
    int32_t groups[MOST_NODES];
    int partitions;
    int route_set;
    uint32_t addresses[MOST_NODES];
    uint64_t keys[2 * MOST_LINKS];
    int32_t via[ROUTE_SETS][MOST_VERTICES * MOST_VERTICES];
    int32_t edge_from[MOST_LINKS], edge_link[MOST_LINKS];
    int32_t tree_of[MOST_NODES], vertex_of[MOST_NODES], link_out[MOST_NODES], link_in[MOST_NODES];
    struct core_routes routes[ROUTE_SETS];
    /* Of the latest change: */
    struct core_change change;
    int32_t changed[MOST_LINKS];
    struct core_wire changed_wires[MOST_LINKS];
    double lookahead_s[MOST_LINKS], to_end_s[MOST_LINKS];
    struct core_model_setup model;
    struct core_forwarder_setup forwarder;
};

/* Links without a rate limit, latency or loss, until `wires` are given others. */
void network_begin(struct network *network, int nodes, bool is_ring);

/* What a forwarder is made of; the network has to stay. */
const struct core_forwarder_setup *network_setup(struct network *network, uint32_t mtu, bool in_order);

/* The change to what the network is like now. */
const struct core_change *network_change(struct network *network);

#endif
