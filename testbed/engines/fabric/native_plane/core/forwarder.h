/* Frames on their way: from what nodes write to what is written to nodes, with the packet model in between. */

#ifndef TESTBED_FORWARDER_H
#define TESTBED_FORWARDER_H

#include "core.h"
#include "frames.h"
#include "model.h"

struct forwarder {
    struct model *model;
    uint32_t nodes, mtu;
    uint32_t *addresses;
    int64_t most_held_bytes, most_held_of_one_bytes;
    int64_t (*unfit)[UNFIT_CAUSES]; /* by rank of the sender: frames that were not carried */
    uint32_t *table;                /* ranks by hash of the address, NO_RANK where there is none */
    uint32_t table_mask, table_shift;
    int64_t pieces; /* of all frames that were carried */
    uint8_t *spare; /* a block for the next frame to be read into */
    uint32_t sizes[MOST_PIECES + 1];
};

/* What a frame may have lost by not being read at once; as `Wait` in Python. */
struct wait {
    double idle_s, added_s, latency_s;
};

/* A node has written a frame, which is in `forwarder->spare`, at the earliest at `since_s`. Tells whether it is
 * carried; counts why not. */
bool forwarder_offer(struct forwarder *forwarder, double now_s, uint32_t origin, uint32_t bytes, double since_s,
                     struct wait *wait);

/* Gives everything that is due up to a time to the sink, in order. */
void forwarder_advance(struct forwarder *forwarder, double to_s, core_sink sink, void *context);

#endif
