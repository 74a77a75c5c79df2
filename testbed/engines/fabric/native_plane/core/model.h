/* The packet model: every piece of every segment, link by link, in exact order.
 *
 * Pieces of a segment that are on their way to the same link are a train. Whichever train reaches its link first is
 * carried next, as many of its pieces at once as certainly come before any other at that link.
 */

#ifndef TESTBED_MODEL_H
#define TESTBED_MODEL_H

#include "core.h"
#include "ends.h"
#include "link.h"
#include "train.h"

/* What the memory for one counts as, besides the block of its frame. */
enum { HELD_SEGMENT_BYTES = 640, HELD_PIECE_BYTES = 64 };

struct model {
    struct pool pool;
    uint32_t nodes, link_count;
    struct link *links;
    struct flow ***flows; /* by origin, then by destination; a row is made when it is needed */
    uint8_t *is_cut;
    int32_t *groups;
    int64_t partitions;
    struct core_routes routes;
    int32_t *path; /* scratch: the links of one */
    struct travel travel;
    double window_s, window_share, longest_window_s;
    double now_s;
    uint64_t epoch, segments;
    int64_t no_path, taken, pairs;
    struct agenda agenda;   /* when some train reaches which link; entries that are no longer true are skipped */
    struct agenda earliest; /* of the same trains, when they are at their end at the earliest */
    struct ends ends;
    struct piece *carried; /* scratch: as many as any train has */
    size_t carried_room;
    struct core_group *handed;
    struct segment **handed_segments;
    size_t handed_count, handed_room;
    uint32_t *handed_pieces;
    size_t handed_pieces_count, handed_pieces_room;
    struct segment *incomplete; /* pieces were dropped, and no other is under way */
    int64_t held_segments, held_bytes;
    int64_t *held_of; /* of `held_bytes`, by origin */
};

/* The pair's flow, with its route as of now; NULL for ranks that the network does not have. */
struct flow *model_flow(struct model *model, int64_t origin, int64_t dest);

/* The route of the pair's latest packets; NULL where there were none, or no path for them. */
static inline const struct route *model_route(const struct model *model, uint32_t origin, uint32_t dest)
{
    const struct flow *flow = model->flows[origin] ? model->flows[origin][dest] : NULL;
    return flow ? flow->route : NULL;
}

/* As `core_model_take`, for pieces in order of their times, none of them past. */
struct segment *model_take(struct model *model, int64_t link, struct flow *flow, uint32_t pieces,
                           const struct piece *taken, uint32_t count);

/* As `core_model_offer`; the segment, or NULL and counted, where there is no path. Time must not go backwards. */
struct segment *model_offer(struct model *model, double now_s, struct flow *flow, const uint32_t *sizes,
                            uint32_t pieces);

/* The segment keeps its frame: a block of the model's pool, of which so many bytes are used. */
void model_keep(struct model *model, struct segment *segment, uint8_t *data, uint32_t bytes, uint32_t block);

static inline uint32_t segment_origin(const struct segment *segment)
{
    return segment->route->flow->origin;
}

/* As `core_model_next`. `latency_s` becomes the least latency of what is handed over then. */
double model_next(struct model *model, double *latency_s);

/* All trains under way: those before links, and those at their end. Gives how many; the array is the caller's. */
size_t model_trains(const struct model *model, struct train ***trains);

/* To be called when pieces of a segment have been handed over or dropped. */
void model_settle(struct model *model, struct segment *segment);

/* The train's next piece is to reach the link of its hop. */
void model_wait(struct model *model, struct train *train);

#endif
