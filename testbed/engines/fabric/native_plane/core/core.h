/* The data plane of the fabric: what Python calls. `abi.py` has the same declarations in Python.
 *
 * Times are seconds: of the host's monotonic clock for a plane, since the plane began for a model. Nothing here is
 * safe to call from two threads at once. Memory that Python passes in is read during the call, except where noted.
 */

#ifndef TESTBED_CORE_H
#define TESTBED_CORE_H

#include <stdint.h>

#define CORE_ABI 1u
#define EXPORTED __attribute__((visibility("default")))

/* One direction of a link, in seconds at the time scale of the run; `network/packets/wire.py` says what they mean. */
struct core_wire {
    double byte_s, latency_s, jitter_s, loss, limit_s, drain;
    int64_t is_up;
};

/* Which links pairs of nodes take: trees of shortest paths over vertices that are no stubs. The arrays have to stay
 * until other routes are given. Negative numbers stand for none. */
struct core_routes {
    int32_t vertices;        /* of the trees */
    int32_t trees;           /* one for every vertex where a node sends into them */
    const int32_t *via;      /* trees x vertices: over which edge a vertex is reached */
    const int32_t *edge_from; /* edge -> vertex where it begins */
    const int32_t *edge_link; /* edge -> link */
    const int32_t *tree_of;  /* rank -> tree */
    const int32_t *vertex_of; /* rank -> vertex; a stub's is its neighbour's */
    const int32_t *link_out; /* rank -> link of a stub into the trees; NOT_A_STUB, or none */
    const int32_t *link_in;
};

enum { CORE_NO_LINK = -1, CORE_NOT_A_STUB = -2 };

/* What a network is like from a time on. */
struct core_change {
    int64_t changed;           /* links whose wires differ */
    const int32_t *links;
    const struct core_wire *wires;
    const double *lookahead_s; /* every link's */
    double last_hop_s;         /* least time that any link to a node takes */
    int64_t has_new_paths;     /* pairs look up their links again */
    const struct core_routes *routes; /* NULL: as before */
    int64_t partitions;
    const int32_t *groups;     /* partitions x nodes: which group a node is in, negative for none */
    const uint8_t *is_cut;     /* by rank */
};

struct core_model_setup {
    int64_t nodes, links;
    const uint64_t *loss_keys, *jitter_keys; /* of every link's streams */
    const int64_t *normal_table;             /* has to stay */
    double window_s, window_share, longest_window_s; /* scaled; see "Handing over" of the specification */
    int64_t in_order;
    const struct core_change *first; /* with the wires of all links */
};

struct core_group {
    int64_t segment;
    int32_t origin, dest;
    double due_s, latency_s;
    int64_t pieces;
    int64_t first; /* where their numbers begin in the array of all */
};

struct core_link_counts {
    int64_t link, packets, bytes, dropped_queue, dropped_loss, dropped_down;
    double queue_s, queue_max_s;
};

struct core_pair_counts {
    int64_t origin, dest, offered_packets, offered_bytes, arrived_packets, arrived_bytes, dropped_packets;
    double queue_s;
};

struct core_totals {
    double now_s;
    int64_t no_path, taken; /* packets between nodes without a path, and those that were offered elsewhere */
    int64_t used_links, pairs;
    int64_t held_segments, held_bytes;
};

struct model;

/* What it may be told is wrong, as negative results. */
enum { CORE_NO_PATH = -1, CORE_BACKWARDS = -2, CORE_BAD_RANK = -3 };

EXPORTED uint32_t core_abi(void);

/* A model of packets under way, without devices; the routes' arrays have to stay. */
EXPORTED struct model *core_model_new(const struct core_model_setup *setup);
EXPORTED void core_model_free(struct model *model);

/* Pieces reach their first link together; gives the number of the segment. */
EXPORTED int64_t core_model_offer(struct model *model, double now_s, int64_t origin, int64_t dest,
                                  const uint32_t *sizes, int64_t pieces);

/* Pieces that another model has carried up to a link go on from there. `numbers` says which of the segment's `pieces`
 * they are, in order of their times. */
EXPORTED int64_t core_model_take(struct model *model, int64_t link, int64_t origin, int64_t dest, int64_t pieces,
                                 const uint32_t *numbers, const uint32_t *sizes, const double *times_s,
                                 int64_t count);

/* Carries packets up to a time; gives how many groups are handed over, or CORE_BACKWARDS. They stay to be looked at
 * until `core_model_forget_groups`. */
EXPORTED int64_t core_model_advance(struct model *model, double to_s);
EXPORTED const struct core_group *core_model_groups(const struct model *model);
EXPORTED const uint32_t *core_model_group_pieces(const struct model *model);
EXPORTED void core_model_forget_groups(struct model *model);

/* Nothing is handed over before; infinite when nothing is under way. It may be too early. */
EXPORTED double core_model_next(const struct model *model);

/* From `now_s` on the network is another. What is due by then is handed over with the next advance. */
EXPORTED int64_t core_model_change(struct model *model, double now_s, const struct core_change *change);

EXPORTED void core_model_totals(const struct model *model, struct core_totals *totals);

/* Write as many rows as the totals say, in order of the links, and of origin and destination. Links' longest waits
 * begin anew. */
EXPORTED void core_model_links(struct model *model, struct core_link_counts *counts);
EXPORTED void core_model_pairs(const struct model *model, struct core_pair_counts *counts);

/* Forgets segments of which some pieces were dropped and all others have been handed over. */
EXPORTED void core_model_release(struct model *model);

#endif
