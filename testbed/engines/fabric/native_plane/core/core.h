/* The data plane of the fabric: what Python calls. `abi.py` has the same declarations in Python.
 *
 * Times are seconds: of the host's monotonic clock for a plane, since the plane began for a model. Nothing here is
 * safe to call from two threads at once. Memory that Python passes in is read during the call, except where noted.
 *
 * Frames are hostile, and so is what other hosts say of theirs (`core_forwarder_take`): the core checks both. Time never
 * goes backwards, and ranks of what is offered exist: that is checked, too. All else comes from the plan, and Python has
 * checked it: links and ranks of changes, ports and captures, and that as many pieces are given as are said to be.
 */

#ifndef TESTBED_CORE_H
#define TESTBED_CORE_H

#include <stdint.h>

#define CORE_ABI 2u
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
    const double *lookahead_s; /* every link's: how long it takes at least to come there from another one */
    const double *to_end_s;    /* and how long from leaving its queue to any node */
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
    double time_scale;
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

enum { CORE_UNFIT = 8, CORE_FAILURES = 16, CORE_HISTOGRAM = 6001, CORE_READ = 0, CORE_WRITE = 1, CORE_CAPTURE_FULL = -1 };

struct core_forwarder_setup {
    const struct core_model_setup *model;
    const uint32_t *addresses; /* IPv4, by rank, as they stand in packets */
    int64_t mtu;
    int64_t most_held_bytes, most_held_of_one_bytes;
};

/* Packets to be written to a node: a frame in two parts, the second one possibly empty. */
struct core_delivery {
    int64_t dest;
    double due_s, latency_s; /* of their path */
    int64_t packets, size_bytes;
    const uint8_t *head;
    int64_t head_bytes;
    const uint8_t *tail;
    int64_t tail_bytes;
};

typedef void (*core_sink)(void *context, const struct core_delivery *delivery);

/* `DelayLimits` of the fabric. */
struct core_delay_limits {
    double late_s, late_part, far, wait_s, added_s, added_part, absent_s;
};

struct core_histogram {
    double max_s;
    int64_t counts[CORE_HISTOGRAM];
};

/* `DelayFigures` of the fabric. */
struct core_delays {
    struct core_delay_limits limits;
    double began_s;
    int64_t packets, late, far, waited, delayed;
    double added_s, latency_s, absent_s, longest_absence_s;
    struct core_histogram lateness, waits, device_waits;
};

/* Reads or packets to write that failed. */
struct core_failure {
    int64_t kind, error, count; /* CORE_READ or CORE_WRITE; the number of the error */
};

struct core_port_figures {
    int64_t is_attached, frames_in, packets_out, bytes_out;
    int64_t absent; /* packets for a node that had no device */
    int64_t unfit[CORE_UNFIT]; /* in the order of `enum unfit` */
    struct core_failure failures[CORE_FAILURES];
};

/* A device that cannot be read any more. It is detached, and its descriptor is the caller's to close. */
struct core_lost {
    int64_t rank, error, descriptor;
};

struct model;
struct forwarder;
struct core_plane;

/* What it may be told is wrong, as negative results. */
enum { CORE_NO_PATH = -1, CORE_BACKWARDS = -2, CORE_BAD_RANK = -3 };

/* The number of this interface: raised whenever a function or structure that Python uses changes. */
EXPORTED uint32_t core_abi(void);

/* The bytes of each structure above that Python uses, in the order of `SIZES` in `abi.py`. */
EXPORTED const uint32_t *core_sizes(void);

/* The digest of the sources and flags that the library was compiled from. */
EXPORTED const char *core_sources(void);

/* The compiler and its version. */
EXPORTED const char *core_compiler(void);

/* Gives 0, or the number of what this library does otherwise than the specification of draws and times says. */
EXPORTED int core_selftest(void);

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
EXPORTED double core_model_next(struct model *model);

/* From `now_s` on the network is another. What is due by then is handed over with the next advance. */
EXPORTED int64_t core_model_change(struct model *model, double now_s, const struct core_change *change);

EXPORTED void core_model_totals(const struct model *model, struct core_totals *totals);

/* Write as many rows as the totals say, in order of the links, and of origin and destination. Links' longest waits
 * begin anew. */
EXPORTED void core_model_links(struct model *model, struct core_link_counts *counts);
EXPORTED void core_model_pairs(const struct model *model, struct core_pair_counts *counts);

/* Forgets segments of which some pieces were dropped and all others have been handed over. */
EXPORTED void core_model_release(struct model *model);

/* Frames over a model; its times are the model's. */
EXPORTED struct forwarder *core_forwarder_new(const struct core_forwarder_setup *setup);
EXPORTED void core_forwarder_free(struct forwarder *forwarder);
EXPORTED struct model *core_forwarder_model(struct forwarder *forwarder);

/* A node has written a frame, at the earliest at `since_s`. Gives 1 when it is carried, and what it has lost by not
 * being read at once, as three numbers; 0 and counted when not; or CORE_BACKWARDS. */
EXPORTED int64_t core_forwarder_offer(struct forwarder *forwarder, double now_s, int64_t origin, const uint8_t *data,
                                      int64_t bytes, double since_s, double *wait);

/* Packets of a frame that another fabric has carried up to a link go on from there; gives 1 if there is a way. */
EXPORTED int64_t core_forwarder_take(struct forwarder *forwarder, int64_t origin, const uint8_t *data, int64_t bytes,
                                     int64_t link, const uint32_t *numbers, const double *times_s, int64_t count);

/* Gives what is due up to a time to the sink, in order; gives 0, or CORE_BACKWARDS. */
EXPORTED int64_t core_forwarder_advance(struct forwarder *forwarder, double to_s, core_sink sink, void *context);
EXPORTED void core_forwarder_unfit(const struct forwarder *forwarder, int64_t rank, int64_t *counts);

/* A data plane: a forwarder between devices, in real time. `wakeup` is a descriptor that is readable when the control
 * plane has something to do. */
EXPORTED struct core_plane *core_plane_new(const struct core_forwarder_setup *setup, int64_t wakeup,
                                           const struct core_delay_limits *limits);

/* Descriptors that are still attached stay open: see `core_plane_detach`. */
EXPORTED void core_plane_free(struct core_plane *plane);
EXPORTED struct forwarder *core_plane_forwarder(struct core_plane *plane);

/* When the model's time was 0, by the host's clock. */
EXPORTED double core_plane_began(const struct core_plane *plane);

/* Reads and writes a device from now on; gives 0, or an error, negative. */
EXPORTED int64_t core_plane_attach(struct core_plane *plane, int64_t rank, int64_t descriptor);

/* Gives the descriptor, which is the caller's to close, or a negative number where there is none. */
EXPORTED int64_t core_plane_detach(struct core_plane *plane, int64_t rank);

/* Carries packets until a time, until `wakeup` is readable, or until devices are lost; gives how many are. There must
 * be room for one of every node. */
EXPORTED int64_t core_plane_run(struct core_plane *plane, double until_s, struct core_lost *lost);

/* Writes packets that a node reads or writes to a file, whose descriptor stays the caller's. */
EXPORTED void core_plane_begin_capture(struct core_plane *plane, int64_t rank, int64_t descriptor, int64_t most_bytes);

/* Gives 0, or why the file lacks packets: CORE_CAPTURE_FULL, or the error. */
EXPORTED int64_t core_plane_end_capture(struct core_plane *plane, int64_t rank);
EXPORTED void core_plane_flush_captures(struct core_plane *plane);

/* Writes a row for every rank. */
EXPORTED void core_plane_ports(const struct core_plane *plane, struct core_port_figures *figures);
EXPORTED const struct core_delays *core_plane_delays(const struct core_plane *plane);
EXPORTED void core_plane_restart_delays(struct core_plane *plane);

#endif
