#include "train.h"

#include <string.h>

struct train *train_new(struct pool *pool, struct segment *segment, int32_t hop)
{
    struct train *train = pool_take(pool, sizeof *train);
    train->segment = segment;
    train->pieces = train->own;
    train->at = train->count = 0;
    train->capacity = OWN_PIECES;
    train->hop = hop;
    train->expected = 0;
    train->expected_s = 0.0;
    train->is_listed = false;
    train->further = train->behind = NULL;
    return train;
}

static void make_room(struct pool *pool, struct train *train, uint32_t count)
{
    if (count <= train->capacity)
        return;
    uint32_t capacity = train->capacity;
    while (capacity < count)
        capacity *= 2;
    struct piece *pieces = pool_take(pool, capacity * sizeof *pieces);
    memcpy(pieces, train->pieces, train->count * sizeof *pieces);
    if (train->pieces != train->own)
        pool_give(pool, train->pieces, train->capacity * sizeof *pieces);
    train->pieces = pieces;
    train->capacity = capacity;
}

void train_extend(struct pool *pool, struct train *train, const struct piece *pieces, uint32_t count)
{
    make_room(pool, train, train->count + count);
    memcpy(train->pieces + train->count, pieces, count * sizeof *pieces);
    train->count += count;
}

void train_replace(struct pool *pool, struct train *train, const struct piece *pieces, uint32_t count)
{
    train->at = train->count = 0;
    train_extend(pool, train, pieces, count);
}

void train_part(struct train *train)
{
    if (train->further)
        train->further->behind = NULL;
    if (train->behind)
        train->behind->further = NULL;
    train->further = train->behind = NULL;
}

void train_gone(struct pool *pool, struct train *train)
{
    train_part(train);
    train->hop = GONE;
    if (!train->expected)
        train_free(pool, train);
}

void train_free(struct pool *pool, struct train *train)
{
    if (train->pieces != train->own)
        pool_give(pool, train->pieces, train->capacity * sizeof *train->pieces);
    pool_give(pool, train, sizeof *train);
}

static bool piece_before(const struct piece *one, const struct piece *other)
{
    if (one->time != other->time)
        return one->time < other->time;
    if (one->number != other->number)
        return one->number < other->number;
    return one->depart < other->depart;
}

static void sort_by_insertion(struct piece *pieces, uint32_t count, uint32_t gap)
{
    for (uint32_t from = gap; from < count; from++) {
        struct piece moved = pieces[from];
        uint32_t at = from;
        for (; at >= gap && piece_before(&moved, &pieces[at - gap]); at -= gap)
            pieces[at] = pieces[at - gap];
        pieces[at] = moved;
    }
}

void pieces_sort(struct piece *pieces, uint32_t count)
{
    /* Shell's sort: nearly sorted pieces cost little, and no order of a sender's making costs much. */
    static const uint32_t GAPS[] = {701, 301, 132, 57, 23, 10, 4, 1};
    for (size_t gap_at = 0; gap_at < sizeof GAPS / sizeof *GAPS; gap_at++)
        sort_by_insertion(pieces, count, GAPS[gap_at]);
}

void pieces_sort_few(struct piece *pieces, uint32_t count)
{
    sort_by_insertion(pieces, count, 1);
}
