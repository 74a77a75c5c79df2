/* What the fuzzer tells: its bytes, read as numbers, times, networks and frames. */

#ifndef TESTBED_TEST_STORY_H
#define TESTBED_TEST_STORY_H

#include "ledger.h"
#include "network.h"

#include <stddef.h>

struct story {
    const uint8_t *data;
    size_t left;
    uint32_t frames;
    uint32_t sequence[MOST_NODES][MOST_NODES]; /* where the next segment of a flow begins */
};

/* The next byte; 0 when there are no more. */
static inline uint8_t story_byte(struct story *story)
{
    if (!story->left)
        return 0;
    story->left--;
    return *story->data++;
}

static inline uint32_t story_16(struct story *story)
{
    uint32_t high = story_byte(story);
    return high << 8 | story_byte(story);
}

/* How much time passes. */
double story_step_s(struct story *story);

struct core_wire story_wire(struct story *story);

/* Two to MOST_NODES nodes. */
void story_network(struct story *story, struct network *network);

/* Changes a link, who is cut off, who is apart, or which routes are taken. */
void story_change(struct story *story, struct network *network);

/* A frame of MOST_FRAME bytes at most: any bytes, or one that is sound but for a few of them. Gives its size. */
uint32_t story_frame(struct story *story, const struct network *network, int origin, uint8_t *data);

#endif
