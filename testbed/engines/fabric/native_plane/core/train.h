/* What is under way: segments, the trains of pieces that they travel as, and the flows and routes they belong to. */

#ifndef TESTBED_TRAIN_H
#define TESTBED_TRAIN_H

#include "agenda.h"
#include "pool.h"

#include <stdbool.h>
#include <stdint.h>

struct link;
struct train;

/* An ordered pair of nodes, and what it has carried. */
struct flow {
    uint32_t origin, dest;
    struct route *route; /* NULL where there is no path */
    uint64_t epoch;      /* of which network `route` is */
    int64_t offered_packets, offered_bytes, arrived_packets, arrived_bytes;
    int64_t dropped_packets; /* for whatever reason, no path included */
    double queue_s;          /* all the waiting of its packets, in all queues */
};

struct hop {
    struct link *link;
    double latest; /* when the latest piece of the route gets to the end of the link */
    bool is_told;  /* scratch of a change: `latest_then` is worked out */
    double latest_then;
};

/* The links that a flow takes. It outlives the flow's next route while segments are on it. */
struct route {
    struct flow *flow;
    double latency_s;
    double window_s; /* pieces of a segment that are due within it are handed over together */
    uint32_t segments;
    uint32_t count;
    struct hop hops[];
};

/* One frame's packets, from when it is offered until the last of them is handed over or given up. */
struct segment {
    uint64_t key; /* orders what happens at the same time: rank of the origin, then number */
    struct route *route;
    double window_s; /* of its route when it was offered */
    uint32_t pieces;
    uint32_t left;      /* pieces not handed over yet, those that were dropped included */
    uint32_t under_way; /* pieces neither handed over nor dropped */
    struct train *at_end;
    struct segment *next_incomplete;
    uint8_t *data; /* the frame, if any, freed with the segment */
    uint32_t data_bytes, data_block;
    uint32_t payload_at, segment_bytes; /* as in `struct frame` */
    uint8_t header[10];
};

struct piece {
    double time;   /* when it reaches the link, or the destination */
    double depart; /* when it leaves the queue of the link before */
    uint32_t number, size;
};

enum { OWN_PIECES = 2 };

/* Pieces of one segment that reach the same link, or the destination, one after the other. */
struct train {
    struct segment *segment;
    struct piece *pieces;
    uint32_t at, count, capacity; /* pieces before `at` have been carried further */
    int32_t hop;                  /* which link they reach; the route's count at the destination; GONE */
    uint32_t expected;            /* entries of the ends' agenda that point here */
    double expected_s;            /* which of them counts */
    struct train *further;        /* pieces of this train that are one link further, while they are there */
    bool is_listed;               /* scratch of `model_trains` */
    struct train *behind;         /* the train of which this one is `further` */
    struct piece own[OWN_PIECES];
};

enum { GONE = -1 };

/* An empty train of a segment, on its way to a hop of its route. */
struct train *train_new(struct pool *pool, struct segment *segment, int32_t hop);

/* Adds pieces behind those that it has. */
void train_extend(struct pool *pool, struct train *train, const struct piece *pieces, uint32_t count);

/* Takes these pieces in place of its own. */
void train_replace(struct pool *pool, struct train *train, const struct piece *pieces, uint32_t count);

/* It has no place among other trains any more, neither before nor behind. */
void train_part(struct train *train);

/* It is at its end; freed as soon as no agenda points to it. */
void train_gone(struct pool *pool, struct train *train);

void train_free(struct pool *pool, struct train *train);

/* Sorts by time, then number, then departure, in place. */
void pieces_sort(struct piece *pieces, uint32_t count);

/* The same, where few are out of place. */
void pieces_sort_few(struct piece *pieces, uint32_t count);

static inline struct entry train_entry(struct train *train)
{
    const struct piece *next = &train->pieces[train->at];
    return (struct entry){next->time, train->segment->key, next->number, train};
}

#endif
