/* One directed link: its queue, its draws and its counts. */

#ifndef TESTBED_LINK_H
#define TESTBED_LINK_H

#include "core.h"
#include "draws.h"
#include "train.h"

struct link {
    int32_t index;
    bool is_used; /* some flow has had it on its route */
    struct core_wire wire;
    double lookahead_s; /* no piece comes here sooner than that after it reached another link */
    double to_end_s;    /* no piece is at a node sooner than that after it left the queue */
    struct agenda pending; /* trains whose next pieces will reach the link */
    struct stream losses, jitters;
    double backlog_s, at_s; /* so much waited at that time, as time at the link's rate */
    int64_t packets, bytes, dropped_queue, dropped_loss, dropped_down;
    double queue_s, queue_max_s;
    const struct rewired *rewired; /* scratch of a change: what has become of this link */
    double added_s; /* how much later the latest frame was than had its device been read at once */
};

/* How pieces travel a link. */
struct travel {
    bool in_order; /* jitter keeps a route in order */
    const int64_t *normal_table;
};

/* Carries a train's next pieces up to a place; writes what gets through into `carried`, gives how many. What is
 * dropped is counted, and is no longer under way. */
uint32_t link_carry(struct link *link, struct train *train, uint32_t end, struct travel travel, struct piece *carried);

/* The backlog stays as many bytes as it is; a link that goes down forgets it. */
void link_rewire(struct link *link, double now_s, struct core_wire wire);

/* Since when it has nothing to send: infinite while it is not known how much. */
double link_free_since(const struct link *link);

/* These pieces of a segment are dropped. */
void segment_lose(struct segment *segment, uint32_t pieces);

#endif
