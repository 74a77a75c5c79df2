#include "model.h"

#include "retime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BITS = 42 }; /* of a key, for the number of the segment */

/* By which sums of the same times differ at most, formed in another order. */
static const double ROUNDING_S = 1e-9;

/* -- routes ------------------------------------------------------------------------------------------------------- */

/* Writes the links from one node to another into `model->path`, the last one first; gives how many. */
static uint32_t find_path(const struct model *model, uint32_t origin, uint32_t dest)
{
    const struct core_routes *routes = &model->routes;
    int32_t out = routes->link_out[origin], in = routes->link_in[dest];
    if (origin == dest || out == CORE_NO_LINK || in == CORE_NO_LINK)
        return 0;
    const int32_t *via = routes->via + (size_t)routes->tree_of[origin] * (size_t)routes->vertices;
    int32_t vertex = routes->vertex_of[dest];
    uint32_t count = 0;
    if (in >= 0)
        model->path[count++] = in;
    for (int32_t edge; (edge = via[vertex]) >= 0; vertex = routes->edge_from[edge])
        model->path[count++] = routes->edge_link[edge];
    if (vertex != routes->vertex_of[origin])
        return 0;
    if (out >= 0)
        model->path[count++] = out;
    return count;
}

static bool are_apart(const struct model *model, const struct flow *flow)
{
    for (int64_t partition = 0; partition < model->partitions; partition++) {
        const int32_t *groups = model->groups + partition * model->nodes;
        int32_t one = groups[flow->origin], other = groups[flow->dest];
        if (one >= 0 && other >= 0 && one != other)
            return true;
    }
    return false;
}

static bool is_along(const struct model *model, const struct route *route, uint32_t count)
{
    if (!route || route->count != count)
        return false;
    for (uint32_t hop = 0; hop < count; hop++)
        if (route->hops[hop].link->index != model->path[count - 1 - hop])
            return false;
    return true;
}

static void leave_route(struct flow *flow)
{
    if (flow->route && !flow->route->segments)
        free(flow->route);
    flow->route = NULL;
}

static void time_route(const struct model *model, struct route *route)
{
    route->latency_s = 0.0;
    for (uint32_t hop = 0; hop < route->count; hop++)
        route->latency_s += route->hops[hop].link->wire.latency_s;
    double window = fmax(model->window_s, model->window_share * route->latency_s);
    route->window_s = fmin(window, model->longest_window_s);
}

static void find_route(struct model *model, struct flow *flow)
{
    flow->epoch = model->epoch;
    uint32_t count = are_apart(model, flow) ? 0 : find_path(model, flow->origin, flow->dest);
    bool is_up = count > 0;
    for (uint32_t hop = 0; hop < count; hop++) {
        struct link *link = &model->links[model->path[hop]];
        link->is_used = true;
        is_up = is_up && link->wire.is_up;
    }
    if (!is_up) {
        leave_route(flow);
        return;
    }
    if (!is_along(model, flow->route, count)) {
        leave_route(flow);
        struct route *route = memory_new(1, sizeof *route + count * sizeof *route->hops);
        route->flow = flow;
        route->count = count;
        for (uint32_t hop = 0; hop < count; hop++)
            route->hops[hop].link = &model->links[model->path[count - 1 - hop]];
        flow->route = route;
    }
    time_route(model, flow->route);
}

struct flow *model_flow(struct model *model, int64_t origin, int64_t dest)
{
    if (origin < 0 || dest < 0 || origin >= model->nodes || dest >= model->nodes)
        return NULL;
    if (!model->flows[origin])
        model->flows[origin] = memory_new(model->nodes, sizeof **model->flows);
    struct flow *flow = model->flows[origin][dest];
    if (!flow) {
        flow = model->flows[origin][dest] = memory_new(1, sizeof *flow);
        flow->origin = (uint32_t)origin;
        flow->dest = (uint32_t)dest;
        flow->epoch = model->epoch - 1;
        model->pairs++;
    }
    if (flow->epoch != model->epoch)
        find_route(model, flow);
    return flow;
}

/* -- segments ----------------------------------------------------------------------------------------------------- */

static struct segment *segment_new(struct model *model, struct route *route, uint32_t pieces, uint32_t under_way)
{
    struct segment *segment = pool_take(&model->pool, sizeof *segment);
    memset(segment, 0, sizeof *segment);
    segment->key = (uint64_t)route->flow->origin << KEY_BITS | model->segments++;
    segment->route = route;
    segment->window_s = route->window_s;
    segment->pieces = pieces;
    segment->left = segment->under_way = under_way;
    route->segments++;
    model->held_segments++;
    if (under_way > model->carried_room) {
        model->carried_room = 2 * (size_t)under_way;
        model->carried = memory_grown(model->carried, model->carried_room, sizeof *model->carried);
    }
    return segment;
}

static int64_t segment_number(const struct segment *segment)
{
    return (int64_t)(segment->key & ((UINT64_C(1) << KEY_BITS) - 1));
}

/* The memory of a segment with a frame is counted, or given back. */
static void hold(struct model *model, const struct segment *segment, int64_t times)
{
    int64_t block = (int64_t)pool_block_bytes(segment->data_block);
    int64_t bytes = times * (block + HELD_SEGMENT_BYTES + HELD_PIECE_BYTES * (int64_t)segment->pieces);
    model->held_bytes += bytes;
    model->held_of[segment_origin(segment)] += bytes;
}

static void segment_free(struct model *model, struct segment *segment)
{
    struct route *route = segment->route;
    model->held_segments--;
    if (segment->data) {
        hold(model, segment, -1);
        pool_give(&model->pool, segment->data, segment->data_block);
    }
    if (!--route->segments && route->flow->route != route)
        free(route);
    pool_give(&model->pool, segment, sizeof *segment);
}

void model_settle(struct model *model, struct segment *segment)
{
    if (segment->under_way)
        return;
    if (!segment->left) {
        segment_free(model, segment);
        return;
    }
    segment->next_incomplete = model->incomplete;
    model->incomplete = segment;
}

void core_model_release(struct model *model)
{
    while (model->incomplete) {
        struct segment *segment = model->incomplete;
        model->incomplete = segment->next_incomplete;
        segment_free(model, segment);
    }
}

void model_keep(struct model *model, struct segment *segment, uint8_t *data, uint32_t bytes, uint32_t block)
{
    segment->data = data;
    segment->data_bytes = bytes;
    segment->data_block = block;
    hold(model, segment, 1);
}

/* -- carrying ----------------------------------------------------------------------------------------------------- */

/* Expects the link's first train at its end no sooner than it, or one behind it, can be there. If the queue has no room
 * for the first piece, a shorter one may find some, but leaves no sooner than a full queue. */
static void expect_at_end(struct model *model, struct link *link)
{
    struct entry entry = *agenda_first(&link->pending);
    const struct train *train = entry.what;
    double sending_s = train->pieces[train->at].size * link->wire.byte_s;
    entry.what = link;
    entry.time += fmax(fmin(sending_s, link->wire.limit_s) + link->to_end_s - ROUNDING_S, 0.0);
    agenda_add(&model->earliest, entry);
}

/* The link has another first train. */
static void announce(struct model *model, struct link *link)
{
    struct entry entry = *agenda_first(&link->pending);
    entry.what = link;
    agenda_add(&model->agenda, entry);
    expect_at_end(model, link);
}

void model_wait(struct model *model, struct train *train)
{
    struct link *link = train->segment->route->hops[train->hop].link;
    struct entry entry = train_entry(train);
    if (agenda_add(&link->pending, entry))
        announce(model, link);
}

/* Whether a piece at `time` with this key comes before everything else that may happen at the link. */
static bool comes_first(double time, uint64_t key, const struct entry *other, double ahead_s)
{
    double other_s = other->time + ahead_s;
    return time < other_s || (time == other_s && ahead_s == 0.0 && key < other->key);
}

/* Up to which of the train's pieces no other piece can come between, its next one being the first of all. */
static uint32_t how_far(const struct model *model, const struct train *train, const struct link *link, double to_s)
{
    const struct entry *here = link->pending.count ? agenda_first(&link->pending) : NULL;
    const struct entry *elsewhere = model->agenda.count ? agenda_first(&model->agenda) : NULL;
    uint64_t key = train->segment->key;
    uint32_t end = train->at + 1;
    for (; end < train->count; end++) {
        double time = train->pieces[end].time;
        if (time > to_s || (here && !comes_first(time, key, here, 0.0)) ||
            (elsewhere && !comes_first(time, key, elsewhere, link->lookahead_s)))
            break;
    }
    return end;
}

/* What got through the link that the train had reached goes on; `is_all` when the train has nothing left there. */
static void move(struct model *model, struct train *train, bool is_all, const struct piece *carried, uint32_t count)
{
    struct segment *segment = train->segment;
    struct train *further = train->further;
    int32_t hop = train->hop + 1;
    if (count && (uint32_t)hop == segment->route->count) {
        ends_add(&model->ends, segment, carried, count);
        count = 0;
    } else if (count && further && model->travel.in_order &&
               carried[0].time >= further->pieces[further->count - 1].time) {
        train_extend(&model->pool, further, carried, count);
        count = 0;
    }
    if (!count) {
        if (is_all)
            train_gone(&model->pool, train);
        return;
    }
    if (is_all) {
        train_part(train);
        train_replace(&model->pool, train, carried, count);
        train->hop = hop;
        model_wait(model, train);
        return;
    }
    struct train *part = train_new(&model->pool, segment, hop);
    train_extend(&model->pool, part, carried, count);
    if (further)
        further->behind = NULL;
    train->further = part;
    part->behind = train;
    model_wait(model, part);
}

/* Carries everything that reaches a link up to and including a time. */
static void run(struct model *model, double to_s)
{
    struct agenda *agenda = &model->agenda;
    while (agenda->count && agenda_first(agenda)->time <= to_s) {
        struct entry entry = agenda_pop(agenda);
        struct link *link = entry.what;
        struct agenda *pending = &link->pending;
        if (!pending->count || agenda_first(pending)->time != entry.time || agenda_first(pending)->key != entry.key)
            continue;
        struct train *train = agenda_pop(pending).what;
        struct segment *segment = train->segment;
        uint32_t end = train->count;
        if (end - train->at > 1)
            end = how_far(model, train, link, to_s);
        uint32_t count = link_carry(link, train, end, model->travel, model->carried);
        bool is_all = end == train->count;
        if (!is_all) {
            train->at = end;
            agenda_add(pending, train_entry(train));
        }
        move(model, train, is_all, model->carried, count);
        model_settle(model, segment);
        if (pending->count)
            announce(model, link);
    }
}

/* -- handing over ------------------------------------------------------------------------------------------------- */

static void hand(struct model *model, struct segment *segment, const struct due_group *group)
{
    struct flow *flow = segment->route->flow;
    uint32_t count = group->to - group->from;
    const struct piece *pieces = group->train->pieces + group->from;
    if (model->handed_count == model->handed_room) {
        model->handed_room = model->handed_room ? 2 * model->handed_room : 16;
        model->handed = memory_grown(model->handed, model->handed_room, sizeof *model->handed);
        model->handed_segments =
            memory_grown(model->handed_segments, model->handed_room, sizeof *model->handed_segments);
    }
    while (model->handed_pieces_count + count > model->handed_pieces_room) {
        model->handed_pieces_room = model->handed_pieces_room ? 2 * model->handed_pieces_room : 64;
        model->handed_pieces =
            memory_grown(model->handed_pieces, model->handed_pieces_room, sizeof *model->handed_pieces);
    }
    model->handed_segments[model->handed_count] = segment;
    model->handed[model->handed_count++] = (struct core_group){
        .segment = segment_number(segment),
        .origin = (int32_t)flow->origin,
        .dest = (int32_t)flow->dest,
        .due_s = group->due_s,
        .latency_s = segment->route->latency_s,
        .pieces = count,
        .first = (int64_t)model->handed_pieces_count,
    };
    flow->arrived_packets += count;
    for (uint32_t at = 0; at < count; at++) {
        flow->arrived_bytes += pieces[at].size;
        model->handed_pieces[model->handed_pieces_count++] = pieces[at].number;
    }
}

/* What is due up to a time is at its destination, or before its closed door. */
static void hand_over(struct model *model, double to_s)
{
    struct due_group group;
    while (ends_take(&model->ends, to_s, &group)) {
        struct segment *segment = group.train->segment;
        const struct route *route = segment->route;
        uint32_t count = group.to - group.from;
        bool is_closed = model->is_cut[route->flow->dest];
        if (!is_closed)
            hand(model, segment, &group);
        ends_taken(&model->ends, &group);
        if (is_closed) {
            route->hops[route->count - 1].link->dropped_down += count;
            segment_lose(segment, count);
            model_settle(model, segment);
        }
    }
}

/* The first train of all that may be at its end next; NULL where none is on its way. */
static const struct entry *first_to_end(struct model *model)
{
    struct agenda *earliest = &model->earliest;
    for (; earliest->count; (void)agenda_pop(earliest)) {
        const struct entry *entry = agenda_first(earliest);
        const struct agenda *pending = &((struct link *)entry->what)->pending;
        if (pending->count && agenda_first(pending)->key == entry->key && agenda_first(pending)->piece == entry->piece)
            return entry;
    }
    return NULL;
}

static double next_to_hand(struct model *model)
{
    const struct entry *first = first_to_end(model);
    return first ? fmin(first->time, ends_next(&model->ends)) : ends_next(&model->ends);
}

double model_next(struct model *model, double *latency_s)
{
    const struct entry *first = first_to_end(model);
    double due_s = ends_next(&model->ends);
    if (first && first->time < due_s) {
        *latency_s = ((struct link *)first->what)->to_end_s;
        due_s = first->time;
    } else {
        *latency_s = model->ends.due.count ? ends_latency(&model->ends) : 0.0;
    }
    return model->handed_count ? model->now_s : fmax(due_s, model->now_s);
}

/* Everything that is due up to and including a time, as if it had been asked for at every time before. */
static void hand_over_until(struct model *model, double to_s)
{
    model->now_s = to_s;
    for (double next_s; (next_s = next_to_hand(model)) < to_s;) {
        run(model, next_s);
        hand_over(model, next_s);
    }
    run(model, to_s);
    hand_over(model, to_s);
}

double core_model_next(struct model *model)
{
    double latency_s;
    return model_next(model, &latency_s);
}

int64_t core_model_advance(struct model *model, double to_s)
{
    if (to_s < model->now_s)
        return CORE_BACKWARDS;
    hand_over_until(model, to_s);
    return (int64_t)model->handed_count;
}

const struct core_group *core_model_groups(const struct model *model)
{
    return model->handed;
}

const uint32_t *core_model_group_pieces(const struct model *model)
{
    return model->handed_pieces;
}

void core_model_forget_groups(struct model *model)
{
    for (size_t at = 0; at < model->handed_count; at++) {
        struct segment *segment = model->handed_segments[at];
        segment->left -= (uint32_t)model->handed[at].pieces;
        segment->under_way -= (uint32_t)model->handed[at].pieces;
        model_settle(model, segment);
    }
    model->handed_count = model->handed_pieces_count = 0;
}

/* -- what is offered ---------------------------------------------------------------------------------------------- */

struct segment *model_offer(struct model *model, double now_s, struct flow *flow, const uint32_t *sizes,
                            uint32_t pieces)
{
    model->now_s = now_s;
    flow->offered_packets += pieces;
    for (uint32_t at = 0; at < pieces; at++)
        flow->offered_bytes += sizes[at];
    if (!flow->route || !pieces) {
        flow->dropped_packets += pieces;
        model->no_path += pieces;
        return NULL;
    }
    struct segment *segment = segment_new(model, flow->route, pieces, pieces);
    struct train *train = train_new(&model->pool, segment, 0);
    for (uint32_t at = 0; at < pieces; at++)
        model->carried[at] = (struct piece){now_s, now_s, at, sizes[at]};
    train_extend(&model->pool, train, model->carried, pieces);
    model_wait(model, train);
    return segment;
}

int64_t core_model_offer(struct model *model, double now_s, int64_t origin, int64_t dest, const uint32_t *sizes,
                         int64_t pieces)
{
    if (now_s < model->now_s)
        return CORE_BACKWARDS;
    struct flow *flow = model_flow(model, origin, dest);
    if (!flow)
        return CORE_BAD_RANK;
    struct segment *segment = model_offer(model, now_s, flow, sizes, (uint32_t)pieces);
    return segment ? segment_number(segment) : CORE_NO_PATH;
}

struct segment *model_take(struct model *model, int64_t link, struct flow *flow, uint32_t pieces,
                           const struct piece *taken, uint32_t count)
{
    struct route *route = flow->route;
    uint32_t hop = 0;
    while (route && hop < route->count && route->hops[hop].link->index != link)
        hop++;
    model->taken += count;
    if (!route || hop == route->count || !count) {
        flow->dropped_packets += count;
        model->no_path += count;
        return NULL;
    }
    struct segment *segment = segment_new(model, route, pieces, count);
    struct train *train = train_new(&model->pool, segment, (int32_t)hop);
    train_extend(&model->pool, train, taken, count);
    pieces_sort(train->pieces, count);
    model_wait(model, train);
    return segment;
}

int64_t core_model_take(struct model *model, int64_t link, int64_t origin, int64_t dest, int64_t pieces,
                        const uint32_t *numbers, const uint32_t *sizes, const double *times_s, int64_t count)
{
    struct flow *flow = model_flow(model, origin, dest);
    if (!flow)
        return CORE_BAD_RANK;
    struct piece *taken = memory_new((size_t)count, sizeof *taken);
    bool is_past = false;
    for (int64_t at = 0; at < count; at++) {
        taken[at] = (struct piece){times_s[at], times_s[at], numbers[at], sizes[at]};
        is_past = is_past || times_s[at] < model->now_s;
    }
    struct segment *segment = is_past ? NULL : model_take(model, link, flow, (uint32_t)pieces, taken, (uint32_t)count);
    free(taken);
    if (is_past)
        return CORE_BACKWARDS;
    return segment ? segment_number(segment) : CORE_NO_PATH;
}

/* -- changes ------------------------------------------------------------------------------------------------------ */

size_t model_trains(const struct model *model, struct train ***trains)
{
    size_t count = 0, room = 64;
    struct train **found = memory_new(room, sizeof *found);
    for (uint32_t at = 0; at <= model->link_count; at++) {
        const struct agenda *from = at < model->link_count ? &model->links[at].pending : &model->ends.due;
        if (count + from->count > room) {
            room = 2 * (count + from->count);
            found = memory_grown(found, room, sizeof *found);
        }
        for (size_t each = 0; each < from->count; each++) {
            struct train *train = from->entries[each].what;
            if (train->hop == GONE || train->is_listed)
                continue;
            train->is_listed = true;
            found[count++] = train;
        }
    }
    for (size_t at = 0; at < count; at++)
        found[at]->is_listed = false;
    *trains = found;
    return count;
}

static void take_routes(struct model *model, const struct core_routes *routes)
{
    model->routes = *routes;
    model->path = memory_grown(model->path, (size_t)routes->vertices + 2, sizeof *model->path);
}

static void take_conditions(struct model *model, const struct core_change *change)
{
    size_t nodes = model->nodes;
    memcpy(model->is_cut, change->is_cut, nodes);
    model->partitions = change->partitions;
    if (change->partitions) {
        size_t groups = (size_t)change->partitions * nodes;
        model->groups = memory_grown(model->groups, groups, sizeof *model->groups);
        memcpy(model->groups, change->groups, groups * sizeof *model->groups);
    }
    if (change->routes)
        take_routes(model, change->routes);
    if (change->has_new_paths)
        model->epoch++;
    for (uint32_t at = 0; at < model->link_count; at++) {
        model->links[at].lookahead_s = change->lookahead_s[at];
        model->links[at].to_end_s = change->to_end_s[at];
    }
}

int64_t core_model_change(struct model *model, double now_s, const struct core_change *change)
{
    if (now_s < model->now_s)
        return CORE_BACKWARDS;
    hand_over_until(model, now_s);
    take_conditions(model, change);
    struct rewired *rewired = memory_new((size_t)change->changed, sizeof *rewired);
    size_t concerned = 0;
    for (int64_t at = 0; at < change->changed; at++) {
        struct link *link = &model->links[change->links[at]];
        rewired[concerned] = (struct rewired){link, link->wire};
        if (!link->is_used) {
            link->wire = change->wires[at];
            continue;
        }
        link_rewire(link, now_s, change->wires[at]);
        concerned += concerns_queue(&rewired[concerned]);
    }
    if (concerned)
        retime(model, now_s, rewired, concerned);
    free(rewired);
    model->earliest.count = 0;
    for (uint32_t at = 0; at < model->link_count; at++)
        if (model->links[at].pending.count)
            expect_at_end(model, &model->links[at]);
    return 0;
}

/* -- counts ------------------------------------------------------------------------------------------------------- */

void core_model_totals(const struct model *model, struct core_totals *totals)
{
    int64_t used = 0;
    for (uint32_t at = 0; at < model->link_count; at++)
        used += model->links[at].is_used;
    *totals = (struct core_totals){model->now_s, model->no_path, model->taken,         used,
                                   model->pairs, model->held_segments, model->held_bytes};
}

void core_model_links(struct model *model, struct core_link_counts *counts)
{
    for (uint32_t at = 0; at < model->link_count; at++) {
        struct link *link = &model->links[at];
        if (!link->is_used)
            continue;
        *counts++ = (struct core_link_counts){link->index,        link->packets,      link->bytes,   link->dropped_queue,
                                              link->dropped_loss, link->dropped_down, link->queue_s, link->queue_max_s};
        link->queue_max_s = 0.0;
    }
}

void core_model_pairs(const struct model *model, struct core_pair_counts *counts)
{
    for (uint32_t origin = 0; origin < model->nodes; origin++) {
        if (!model->flows[origin])
            continue;
        for (uint32_t dest = 0; dest < model->nodes; dest++) {
            const struct flow *flow = model->flows[origin][dest];
            if (flow)
                *counts++ = (struct core_pair_counts){
                    origin,
                    dest,
                    flow->offered_packets,
                    flow->offered_bytes,
                    flow->arrived_packets,
                    flow->arrived_bytes,
                    flow->dropped_packets,
                    flow->queue_s,
                };
        }
    }
}

/* -- from the beginning to the end -------------------------------------------------------------------------------- */

struct model *core_model_new(const struct core_model_setup *setup)
{
    struct model *model = memory_new(1, sizeof *model);
    model->nodes = (uint32_t)setup->nodes;
    model->link_count = (uint32_t)setup->links;
    model->links = memory_new(model->link_count, sizeof *model->links);
    model->flows = memory_new(model->nodes, sizeof *model->flows);
    model->is_cut = memory_new(model->nodes, sizeof *model->is_cut);
    model->held_of = memory_new(model->nodes, sizeof *model->held_of);
    model->travel = (struct travel){setup->in_order != 0, setup->normal_table};
    model->window_s = setup->window_s;
    model->window_share = setup->window_share;
    model->longest_window_s = setup->longest_window_s;
    model->ends.pool = &model->pool;
    for (uint32_t at = 0; at < model->link_count; at++) {
        struct link *link = &model->links[at];
        link->index = (int32_t)at;
        link->wire = setup->first->wires[at];
        link->losses.key = setup->loss_keys[at];
        link->jitters.key = setup->jitter_keys[at];
    }
    take_conditions(model, setup->first);
    return model;
}

void core_model_free(struct model *model)
{
    core_model_forget_groups(model);
    struct train **trains;
    size_t count = model_trains(model, &trains);
    ends_clear(&model->ends);
    for (size_t at = 0; at < count; at++) {
        trains[at]->segment->under_way -= trains[at]->count - trains[at]->at;
        model_settle(model, trains[at]->segment);
        train_free(&model->pool, trains[at]);
    }
    free(trains);
    core_model_release(model);
    for (uint32_t at = 0; at < model->link_count; at++)
        agenda_free(&model->links[at].pending);
    agenda_free(&model->agenda);
    agenda_free(&model->earliest);
    agenda_free(&model->ends.due);
    for (uint32_t origin = 0; origin < model->nodes; origin++) {
        for (uint32_t dest = 0; model->flows[origin] && dest < model->nodes; dest++) {
            if (model->flows[origin][dest])
                leave_route(model->flows[origin][dest]);
            free(model->flows[origin][dest]);
        }
        free(model->flows[origin]);
    }
    pool_empty(&model->pool);
    free(model->flows);
    free(model->links);
    free(model->is_cut);
    free(model->groups);
    free(model->held_of);
    free(model->path);
    free(model->carried);
    free(model->handed);
    free(model->handed_segments);
    free(model->handed_pieces);
    free(model);
}
