#include "network.h"

#include <math.h>
#include <string.h>

enum { NORMAL_TABLE = 449 };

/* Farther than this many standard deviations jitter never goes. */
static const double FARTHEST = 6.0;
static int64_t normal_table[NORMAL_TABLE];

/* Falls as the specified table does, in straight lines. */
static void make_table(void)
{
    for (int at = 0; at < NORMAL_TABLE; at++)
        normal_table[at] = (int64_t)((5.9 * (NORMAL_TABLE - 1 - at) / (NORMAL_TABLE - 1)) * 0x1p32);
}

static void add_link(struct network *network, int from, int to)
{
    network->from[network->links] = from;
    network->to[network->links++] = to;
}

static void make_ring(struct network *network)
{
    int nodes = network->nodes;
    network->vertices = nodes;
    for (int at = 0; at < nodes; at++)
        add_link(network, at, (at + 1) % nodes);
    for (int at = 0; at < nodes; at++)
        add_link(network, (at + 1) % nodes, at);
    network->edges = network->links;
    for (int edge = 0; edge < network->edges; edge++) {
        network->edge_from[edge] = network->from[edge];
        network->edge_link[edge] = edge;
    }
    for (int tree = 0; tree < nodes; tree++) {
        for (int vertex = 0; vertex < nodes; vertex++) {
            bool is_root = tree == vertex;
            network->via[0][tree * nodes + vertex] = is_root ? CORE_NO_LINK : (vertex + nodes - 1) % nodes;
            network->via[1][tree * nodes + vertex] = is_root ? CORE_NO_LINK : nodes + vertex;
        }
        network->tree_of[tree] = network->vertex_of[tree] = tree;
        network->link_out[tree] = network->link_in[tree] = CORE_NOT_A_STUB;
    }
}

static void make_stubs(struct network *network)
{
    int routers = network->nodes;
    network->vertices = 2;
    network->edges = 4;
    for (int node = 0; node < network->nodes; node++) {
        int router = node % 2;
        network->tree_of[node] = network->vertex_of[node] = router;
        network->link_out[node] = network->links;
        add_link(network, node, routers + router);
        network->link_in[node] = network->links;
        add_link(network, routers + router, node);
    }
    for (int edge = 0; edge < network->edges; edge++) {
        int from = edge / 2;
        network->edge_from[edge] = from;
        network->edge_link[edge] = network->links;
        add_link(network, routers + from, routers + 1 - from);
    }
    for (int set = 0; set < ROUTE_SETS; set++) {
        network->via[set][0] = network->via[set][3] = CORE_NO_LINK;
        network->via[set][1] = set;
        network->via[set][2] = 2 + set;
    }
}

void network_begin(struct network *network, int nodes, bool is_ring)
{
    make_table();
    memset(network, 0, sizeof *network);
    network->nodes = nodes;
    network->is_ring = is_ring;
    if (is_ring)
        make_ring(network);
    else
        make_stubs(network);
    for (int set = 0; set < ROUTE_SETS; set++) {
        network->routes[set] = (struct core_routes){
            .vertices = network->vertices,
            .trees = network->vertices,
            .via = network->via[set],
            .edge_from = network->edge_from,
            .edge_link = network->edge_link,
            .tree_of = network->tree_of,
            .vertex_of = network->vertex_of,
            .link_out = network->link_out,
            .link_in = network->link_in,
        };
    }
    for (int link = 0; link < network->links; link++) {
        network->wires[link] = (struct core_wire){.limit_s = 1e-9, .drain = 1.0, .is_up = 1};
        network->keys[link] = 1000003u * (uint64_t)link;
        network->keys[MOST_LINKS + link] = 7u + 1000003u * (uint64_t)link;
    }
    for (int node = 0; node < nodes; node++) {
        const uint8_t address[] = {198, 18, 0, (uint8_t)(1 + node)};
        memcpy(&network->addresses[node], address, sizeof address);
        network->groups[node] = -1;
    }
}

static bool is_up(const struct network *network, int link)
{
    int from = network->from[link], to = network->to[link];
    bool is_cut = (from < network->nodes && network->is_cut[from]) || (to < network->nodes && network->is_cut[to]);
    return network->wires[link].is_up && !is_cut;
}

/* The least time from leaving a link's queue to being at any node. */
static void find_ends(struct network *network, const double *travel_s)
{
    for (int link = 0; link < network->links; link++)
        network->to_end_s[link] = INFINITY;
    for (int hops = 0; hops < MOST_VERTICES; hops++) {
        for (int link = 0; link < network->links; link++) {
            double further_s = network->to[link] < network->nodes ? 0.0 : INFINITY;
            for (int next = 0; next < network->links; next++)
                if (network->from[next] == network->to[link])
                    further_s = fmin(further_s, network->to_end_s[next]);
            network->to_end_s[link] = travel_s[link] + further_s;
        }
    }
}

const struct core_change *network_change(struct network *network)
{
    int changed = 0;
    double travel_s[MOST_LINKS], least_s[MOST_VERTICES];
    for (int vertex = 0; vertex < MOST_VERTICES; vertex++)
        least_s[vertex] = INFINITY;
    for (int link = 0; link < network->links; link++) {
        struct core_wire wire = network->wires[link];
        wire.is_up = is_up(network, link);
        if (memcmp(&wire, &network->changed_wires[link], sizeof wire) != 0) {
            network->changed[changed] = link;
            network->changed_wires[link] = wire;
            changed++;
        }
        travel_s[link] = fmax(wire.latency_s - FARTHEST * wire.jitter_s, 0.0);
        least_s[network->to[link]] = fmin(least_s[network->to[link]], travel_s[link]);
    }
    for (int link = 0; link < network->links; link++)
        network->lookahead_s[link] = least_s[network->from[link]];
    find_ends(network, travel_s);
    static struct core_wire wires[MOST_LINKS];
    for (int at = 0; at < changed; at++)
        wires[at] = network->changed_wires[network->changed[at]];
    network->change = (struct core_change){
        .changed = changed,
        .links = network->changed,
        .wires = wires,
        .lookahead_s = network->lookahead_s,
        .to_end_s = network->to_end_s,
        .has_new_paths = 1,
        .routes = &network->routes[network->route_set],
        .partitions = network->partitions,
        .groups = network->groups,
        .is_cut = network->is_cut,
    };
    return &network->change;
}

const struct core_forwarder_setup *network_setup(struct network *network, uint32_t mtu, bool in_order)
{
    memset(network->changed_wires, 0xFF, sizeof network->changed_wires); /* all are new */
    network->model = (struct core_model_setup){
        .nodes = network->nodes,
        .links = network->links,
        .loss_keys = network->keys,
        .jitter_keys = network->keys + MOST_LINKS,
        .normal_table = normal_table,
        .window_s = 0.0002,
        .window_share = 0.01,
        .longest_window_s = 0.001,
        .time_scale = 1.0,
        .in_order = in_order,
        .first = network_change(network),
    };
    network->forwarder = (struct core_forwarder_setup){
        .model = &network->model,
        .addresses = network->addresses,
        .mtu = mtu,
        .most_held_bytes = 1 << 20,
        .most_held_of_one_bytes = 1 << 18,
    };
    return &network->forwarder;
}
