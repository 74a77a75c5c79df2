/* Pieces at the end of their last link, until they are handed over to their destination. */

#ifndef TESTBED_ENDS_H
#define TESTBED_ENDS_H

#include "train.h"

/* Pieces of a segment that are due within its window of the first of them are a group, due when the last one is. */
struct ends {
    struct agenda due; /* when the next group of a train is due; an entry may be too early */
    struct pool *pool;
};

struct due_group {
    struct train *train;
    uint32_t from, to; /* which of the train's pieces; they stay there until `ends_taken` */
    double due_s;
};

/* Adds pieces of a segment that have been carried by its last link. */
void ends_add(struct ends *ends, struct segment *segment, const struct piece *pieces, uint32_t count);

/* Nothing is expected any more; trains that were here are the caller's. */
void ends_clear(struct ends *ends);

/* Nothing is due before; infinite where nothing is here. It may be too early. */
double ends_next(const struct ends *ends);

/* The latency of the path of what is due next; there must be something. */
double ends_latency(const struct ends *ends);

/* The next group that is due up to and including a time, if there is one; to be followed by `ends_taken`. */
bool ends_take(struct ends *ends, double to_s, struct due_group *group);

/* The group's pieces are where they belong. */
void ends_taken(struct ends *ends, const struct due_group *group);

#endif
