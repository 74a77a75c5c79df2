#include "forwarder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LARGE = 32768 /* frames larger than this stay in the block that they were read into */
};

static const uint32_t NO_RANK = UINT32_MAX;

/* Neighbouring addresses differ in their last byte, which is the highest of this number: only high bits of the product
 * tell them apart. */
static uint32_t hash(const struct forwarder *forwarder, uint32_t address)
{
    return address * UINT32_C(0x9E3779B1) >> forwarder->table_shift;
}

static uint32_t rank_of(const struct forwarder *forwarder, uint32_t address)
{
    for (uint32_t at = hash(forwarder, address);; at++) {
        uint32_t rank = forwarder->table[at & forwarder->table_mask];
        if (rank == NO_RANK || forwarder->addresses[rank] == address)
            return rank;
    }
}

struct forwarder *core_forwarder_new(const struct core_forwarder_setup *setup)
{
    struct forwarder *forwarder = memory_new(1, sizeof *forwarder);
    forwarder->model = core_model_new(setup->model);
    forwarder->nodes = (uint32_t)setup->model->nodes;
    forwarder->mtu = (uint32_t)setup->mtu;
    forwarder->most_held_bytes = setup->most_held_bytes;
    forwarder->most_held_of_one_bytes = setup->most_held_of_one_bytes;
    forwarder->addresses = memory_new(forwarder->nodes, sizeof *forwarder->addresses);
    memcpy(forwarder->addresses, setup->addresses, forwarder->nodes * sizeof *forwarder->addresses);
    forwarder->unfit = memory_new(forwarder->nodes, sizeof *forwarder->unfit);
    forwarder->spare = pool_take(&forwarder->model->pool, LARGEST_FRAME);
    uint32_t room = 4;
    for (forwarder->table_shift = 30; room < 2 * forwarder->nodes; forwarder->table_shift--)
        room *= 2;
    forwarder->table = memory_new(room, sizeof *forwarder->table);
    forwarder->table_mask = room - 1;
    memset(forwarder->table, 0xFF, room * sizeof *forwarder->table);
    for (uint32_t rank = 0; rank < forwarder->nodes; rank++) {
        uint32_t at = hash(forwarder, forwarder->addresses[rank]);
        while (forwarder->table[at & forwarder->table_mask] != NO_RANK)
            at++;
        forwarder->table[at & forwarder->table_mask] = rank;
    }
    return forwarder;
}

void core_forwarder_free(struct forwarder *forwarder)
{
    pool_give(&forwarder->model->pool, forwarder->spare, LARGEST_FRAME);
    core_model_free(forwarder->model);
    free(forwarder->addresses);
    free(forwarder->unfit);
    free(forwarder->table);
    free(forwarder);
}

struct model *core_forwarder_model(struct forwarder *forwarder)
{
    return forwarder->model;
}

void core_forwarder_unfit(const struct forwarder *forwarder, int64_t rank, int64_t *counts)
{
    memcpy(counts, forwarder->unfit[rank], sizeof forwarder->unfit[rank]);
}

static uint32_t sizes_of(struct forwarder *forwarder, const struct frame *frame)
{
    uint32_t last = frame->pieces - 1;
    for (uint32_t piece = 0; piece < last; piece++)
        forwarder->sizes[piece] = frame->size;
    forwarder->sizes[last] = frame->last_size;
    return frame->pieces;
}

/* Whether no more frames may be on their way. */
static bool is_full(const struct forwarder *forwarder, uint32_t origin)
{
    const struct model *model = forwarder->model;
    return model->held_bytes > forwarder->most_held_bytes ||
           model->held_of[origin] > forwarder->most_held_of_one_bytes;
}

/* The segment keeps the frame that was read: a copy, or the very block, and then there is another one to read into. */
static void keep(struct forwarder *forwarder, struct segment *segment, const struct frame *frame, uint32_t bytes)
{
    struct pool *pool = &forwarder->model->pool;
    uint8_t *data = forwarder->spare;
    uint32_t block = LARGEST_FRAME;
    if (bytes <= LARGE) {
        block = bytes;
        data = memcpy(pool_take(pool, block), forwarder->spare, bytes);
    } else {
        forwarder->spare = pool_take(pool, LARGEST_FRAME);
    }
    memcpy(data, frame->header, VNET_BYTES);
    segment->payload_at = frame->payload_at;
    segment->segment_bytes = frame->segment_bytes;
    model_keep(forwarder->model, segment, data, bytes, block);
}

/* What waits to be read has lost no time while the link that it goes to has others to send, unless these come late
 * themselves: then it has lost as much as they, and never more than it has waited. */
static struct wait waited(struct link *link, double gap_s, double waited_s, double latency_s)
{
    double idle_s = gap_s > 0.0 ? gap_s : 0.0;
    double added_s = idle_s + link->added_s;
    link->added_s = fmin(added_s, waited_s);
    return (struct wait){fmin(idle_s, waited_s), link->added_s, latency_s};
}

bool forwarder_offer(struct forwarder *forwarder, double now_s, uint32_t origin, uint32_t bytes, double since_s,
                     struct wait *wait)
{
    struct model *model = forwarder->model;
    int64_t *unfit = forwarder->unfit[origin];
    struct frame frame;
    enum unfit why = frame_read(&frame, forwarder->spare, bytes, forwarder->addresses[origin], forwarder->mtu);
    if (why != FIT) {
        unfit[why]++;
        return false;
    }
    uint32_t dest = rank_of(forwarder, frame.dest);
    if (dest == NO_RANK || dest == origin) {
        unfit[is_group(frame.dest) ? UNFIT_MULTICAST : UNFIT_UNKNOWN_DESTINATION]++;
        return false;
    }
    if (is_full(forwarder, origin)) {
        unfit[UNFIT_BACKLOG] += frame.pieces;
        return false;
    }
    const struct route *before = model_route(model, origin, dest);
    double gap_s = before ? now_s - link_free_since(before->hops[0].link) : INFINITY;
    struct flow *flow = model_flow(model, origin, dest);
    struct segment *segment = model_offer(model, now_s, flow, forwarder->sizes, sizes_of(forwarder, &frame));
    if (!segment)
        return false;
    forwarder->pieces += frame.pieces;
    keep(forwarder, segment, &frame, bytes);
    struct link *first = segment->route->hops[0].link;
    double waited_s = since_s < now_s ? now_s - since_s : 0.0;
    if (before) {
        *wait = waited(first, gap_s, waited_s, segment->route->latency_s);
    } else {
        first->added_s = waited_s; /* it is not known since when the link had nothing to send */
        *wait = (struct wait){0.0, waited_s, segment->route->latency_s};
    }
    return true;
}

int64_t core_forwarder_offer(struct forwarder *forwarder, double now_s, int64_t origin, const uint8_t *data,
                             int64_t bytes, double since_s, double *wait)
{
    if (now_s < forwarder->model->now_s)
        return CORE_BACKWARDS;
    if (origin < 0 || origin >= forwarder->nodes)
        return CORE_BAD_RANK;
    struct wait found;
    if (bytes < 0 || bytes > LARGEST_FRAME)
        bytes = 0; /* no device gives such a frame: it is as malformed as an empty one */
    memcpy(forwarder->spare, data, (size_t)bytes);
    if (!forwarder_offer(forwarder, now_s, (uint32_t)origin, (uint32_t)bytes, since_s, &found))
        return 0;
    memcpy(wait, &found, sizeof found);
    return 1;
}

/* Whether these are different pieces of the frame, each with a time. */
static bool are_pieces(const struct frame *frame, const uint32_t *numbers, const double *times_s, int64_t count)
{
    uint64_t seen[MOST_PIECES / 64 + 1] = {0};
    if (count < 0 || count > frame->pieces)
        return false;
    for (int64_t at = 0; at < count; at++) {
        uint32_t number = numbers[at];
        if (number >= frame->pieces || !isfinite(times_s[at]) || seen[number / 64] >> number % 64 & 1)
            return false;
        seen[number / 64] |= UINT64_C(1) << number % 64;
    }
    return true;
}

int64_t core_forwarder_take(struct forwarder *forwarder, int64_t origin, const uint8_t *data, int64_t bytes,
                            int64_t link, const uint32_t *numbers, const double *times_s, int64_t count)
{
    struct model *model = forwarder->model;
    if (origin < 0 || origin >= forwarder->nodes)
        return 0;
    int64_t *unfit = forwarder->unfit[origin];
    struct frame frame;
    if (bytes < 0 || bytes > LARGEST_FRAME ||
        frame_read(&frame, data, (uint32_t)bytes, forwarder->addresses[origin], forwarder->mtu) != FIT ||
        !are_pieces(&frame, numbers, times_s, count)) {
        unfit[UNFIT_MALFORMED]++;
        return 0;
    }
    uint32_t dest = rank_of(forwarder, frame.dest);
    if (dest == NO_RANK) {
        unfit[UNFIT_UNKNOWN_DESTINATION]++;
        return 0;
    }
    if (is_full(forwarder, (uint32_t)origin)) {
        unfit[UNFIT_BACKLOG] += count;
        return 0;
    }
    struct piece taken[MOST_PIECES];
    for (int64_t at = 0; at < count; at++) {
        double time = fmax(times_s[at], model->now_s);
        uint32_t size = numbers[at] + 1 < frame.pieces ? frame.size : frame.last_size;
        taken[at] = (struct piece){time, time, numbers[at], size};
    }
    struct flow *flow = model_flow(model, origin, dest);
    struct segment *segment = model_take(model, link, flow, frame.pieces, taken, (uint32_t)count);
    if (!segment)
        return 0;
    memcpy(forwarder->spare, data, (size_t)bytes);
    keep(forwarder, segment, &frame, (uint32_t)bytes);
    return 1;
}

/* Gives consecutive pieces of a segment to the sink. */
static void deliver_part(const struct segment *segment, struct core_delivery *delivery, const uint32_t *numbers,
                         uint32_t count, core_sink sink, void *context)
{
    struct part part;
    uint32_t first = numbers[0], last = numbers[0] + count;
    frame_part(&part, segment->data, segment->data_bytes, segment->payload_at, segment->segment_bytes, first, last);
    uint32_t headers = segment->payload_at - VNET_BYTES;
    delivery->packets = count;
    delivery->size_bytes = (int64_t)(count * headers + part.to - part.from);
    delivery->head = part.head;
    delivery->head_bytes = part.head_bytes;
    delivery->tail = segment->data + part.from;
    delivery->tail_bytes = part.to - part.from;
    sink(context, delivery);
}

static void deliver(const struct segment *segment, const struct core_group *group, const uint32_t *numbers,
                    core_sink sink, void *context)
{
    struct core_delivery delivery = {.dest = group->dest, .due_s = group->due_s, .latency_s = group->latency_s};
    uint32_t count = (uint32_t)group->pieces;
    if (count == segment->pieces) {
        uint32_t headers = segment->payload_at ? segment->payload_at - VNET_BYTES : 0;
        delivery.packets = count;
        delivery.size_bytes = (int64_t)(segment->data_bytes - VNET_BYTES + (count - 1) * headers);
        delivery.head = segment->data;
        delivery.head_bytes = segment->data_bytes;
        sink(context, &delivery);
        return;
    }
    for (uint32_t from = 0, to = 1; to <= count; to++) {
        if (to < count && numbers[to] == numbers[to - 1] + 1)
            continue;
        deliver_part(segment, &delivery, numbers + from, to - from, sink, context);
        from = to; /* pieces that have overtaken others start a new part */
    }
}

void forwarder_advance(struct forwarder *forwarder, double to_s, core_sink sink, void *context)
{
    struct model *model = forwarder->model;
    int64_t count = core_model_advance(model, to_s);
    for (int64_t at = 0; at < count; at++) {
        const struct core_group *group = &model->handed[at];
        deliver(model->handed_segments[at], group, model->handed_pieces + group->first, sink, context);
    }
    core_model_forget_groups(model);
}

int64_t core_forwarder_advance(struct forwarder *forwarder, double to_s, core_sink sink, void *context)
{
    if (to_s < forwarder->model->now_s)
        return CORE_BACKWARDS;
    forwarder_advance(forwarder, to_s, sink, context);
    return 0;
}
