#include "retime.h"

#include <math.h>
#include <stdlib.h>

/* One piece in the queue of a changed link. */
struct queued {
    const struct rewired *rewired;
    struct piece piece;
    struct train *part; /* takes it up if it is not dropped */
};

struct change {
    double now_s;
    struct queued *queued;
    size_t queued_count, queued_room;
    struct train **parts;
    size_t parts_count;
    struct hop **told; /* whose `latest_then` takes the place of `latest` in the end */
    size_t told_count, told_room;
};

bool concerns_queue(const struct rewired *rewired)
{
    const struct core_wire *old = &rewired->old, *new = &rewired->link->wire;
    return new->byte_s != old->byte_s || new->latency_s != old->latency_s || new->loss > old->loss ||
           (old->is_up && !new->is_up);
}

static void tell(struct change *change, struct hop *hop, double latest)
{
    if (!hop->is_told) {
        if (change->told_count == change->told_room) {
            change->told_room = change->told_room ? 2 * change->told_room : 16;
            change->told = memory_grown(change->told, change->told_room, sizeof(struct hop *));
        }
        change->told[change->told_count++] = hop;
        hop->is_told = true;
        hop->latest_then = 0.0;
    }
    hop->latest_then = fmax(hop->latest_then, latest);
}

static void queue(struct change *change, const struct rewired *rewired, struct piece piece, struct train *part)
{
    if (change->queued_count == change->queued_room) {
        change->queued_room = change->queued_room ? 2 * change->queued_room : 64;
        change->queued = memory_grown(change->queued, change->queued_room, sizeof *change->queued);
    }
    change->queued[change->queued_count++] = (struct queued){rewired, piece, part};
}

/* Pieces of a train that are still in the queue leave it for a part of their own; the others stay. */
static void split(struct model *model, struct change *change, const struct rewired *rewired, struct train *train)
{
    const struct core_wire *new = &rewired->link->wire;
    struct hop *hop = &train->segment->route->hops[train->hop - 1];
    struct train *part = train_new(&model->pool, train->segment, train->hop);
    uint32_t kept = 0;
    for (uint32_t at = train->at; at < train->count; at++) {
        struct piece piece = train->pieces[at];
        if (piece.depart > change->now_s) {
            queue(change, rewired, piece, part);
            continue;
        }
        train->pieces[kept++] = piece;
        if (new->is_up)
            tell(change, hop, new->latency_s == rewired->old.latency_s ? piece.time : 0.0);
    }
    train->at = 0;
    train->count = kept;
    change->parts[change->parts_count++] = part;
}

static int compare_queued(const void *one, const void *other)
{
    const struct queued *a = one, *b = other;
    if (a->rewired != b->rewired)
        return a->rewired < b->rewired ? -1 : 1;
    struct entry left = {a->piece.depart, a->part->segment->key, a->piece.number, NULL};
    struct entry right = {b->piece.depart, b->part->segment->key, b->piece.number, NULL};
    return entry_before(&left, &right) ? -1 : entry_before(&right, &left);
}

static void lose_one(struct model *model, struct segment *segment)
{
    segment_lose(segment, 1);
    model_settle(model, segment);
}

static void leave_later(struct model *model, struct change *change, struct queued *queued)
{
    const struct core_wire *old = &queued->rewired->old, *new = &queued->rewired->link->wire;
    struct link *link = queued->rewired->link;
    struct train *part = queued->part;
    struct segment *segment = part->segment;
    if (!new->is_up) {
        link->dropped_down++;
        lose_one(model, segment);
        return;
    }
    double also_lost = new->loss > old->loss ? (new->loss - old->loss) / (1.0 - old->loss) : 0.0;
    if (also_lost > 0.0 && draw_uniform(&link->losses) < also_lost) {
        link->dropped_loss++;
        lose_one(model, segment);
        return;
    }
    struct hop *hop = &segment->route->hops[part->hop - 1];
    struct piece piece = queued->piece;
    double scale = old->byte_s > 0.0 ? new->byte_s / old->byte_s : 1.0;
    double shift = piece.time - piece.depart - old->latency_s;
    double takes = new->latency_s + shift;
    piece.depart = change->now_s + (piece.depart - change->now_s) * scale;
    piece.time = piece.depart + (takes > 0.0 ? takes : 0.0);
    if (model->travel.in_order && hop->is_told && piece.time < hop->latest_then)
        piece.time = hop->latest_then;
    tell(change, hop, piece.time);
    hop->latest_then = piece.time; /* the latest one, even where jitter lets it arrive before others */
    train_extend(&model->pool, part, &piece, 1);
}

/* The train waits where it is to be carried next, or at its end. */
static void put_back(struct model *model, struct train *train)
{
    if (train->at < train->count && (uint32_t)train->hop < train->segment->route->count) {
        model_wait(model, train);
        return;
    }
    if (train->at < train->count)
        ends_add(&model->ends, train->segment, train->pieces + train->at, train->count - train->at);
    train_free(&model->pool, train);
}

void retime(struct model *model, double now_s, const struct rewired *rewired, size_t count)
{
    struct train **trains;
    size_t train_count = model_trains(model, &trains);
    model->agenda.count = model->earliest.count = 0;
    ends_clear(&model->ends);
    for (uint32_t at = 0; at < model->link_count; at++)
        model->links[at].pending.count = 0;
    for (size_t at = 0; at < count; at++)
        rewired[at].link->rewired = &rewired[at];

    struct change change = {.now_s = now_s, .parts = memory_new(train_count, sizeof(struct train *))};
    for (size_t at = 0; at < train_count; at++) {
        struct train *train = trains[at];
        train_part(train);
        train->segment->at_end = NULL;
        const struct rewired *via = train->hop ? train->segment->route->hops[train->hop - 1].link->rewired : NULL;
        if (via)
            split(model, &change, via, train);
    }
    if (change.queued_count)
        qsort(change.queued, change.queued_count, sizeof *change.queued, compare_queued);
    for (size_t at = 0; at < change.queued_count; at++)
        leave_later(model, &change, &change.queued[at]);
    for (size_t at = 0; at < change.told_count; at++) {
        change.told[at]->latest = change.told[at]->latest_then;
        change.told[at]->is_told = false;
    }
    for (size_t at = 0; at < train_count; at++)
        put_back(model, trains[at]);
    for (size_t at = 0; at < change.parts_count; at++) {
        pieces_sort(change.parts[at]->pieces, change.parts[at]->count);
        put_back(model, change.parts[at]);
    }
    for (size_t at = 0; at < count; at++)
        rewired[at].link->rewired = NULL;
    free(trains);
    free(change.queued);
    free(change.parts);
    free(change.told);
}
