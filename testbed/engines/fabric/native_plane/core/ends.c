#include "ends.h"

#include <math.h>

/* Up to which place pieces are due within the window of the train's next one. */
static uint32_t group_end(const struct train *train)
{
    double last_s = train->pieces[train->at].time + train->segment->window_s;
    uint32_t end = train->at + 1;
    while (end < train->count && train->pieces[end].time <= last_s)
        end++;
    return end;
}

static void expect(struct ends *ends, struct train *train)
{
    struct entry entry = train_entry(train);
    entry.time = train->pieces[group_end(train) - 1].time;
    if (train->expected && train->expected_s == entry.time)
        return;
    train->expected++;
    train->expected_s = entry.time;
    agenda_add(&ends->due, entry);
}

void ends_add(struct ends *ends, struct segment *segment, const struct piece *pieces, uint32_t count)
{
    struct train *there = segment->at_end;
    if (there) {
        const struct piece *last = &there->pieces[there->count - 1];
        bool is_later = pieces->time > last->time || (pieces->time == last->time && pieces->number > last->number);
        train_extend(ends->pool, there, pieces, count);
        if (is_later)
            return; /* what is on the agenda is early enough */
        pieces_sort_few(there->pieces + there->at, there->count - there->at);
    } else {
        there = segment->at_end = train_new(ends->pool, segment, (int32_t)segment->route->count);
        train_extend(ends->pool, there, pieces, count);
    }
    expect(ends, there);
}

void ends_clear(struct ends *ends)
{
    for (size_t at = 0; at < ends->due.count; at++) {
        struct train *train = ends->due.entries[at].what;
        if (!--train->expected && train->hop == GONE)
            train_free(ends->pool, train);
    }
    ends->due.count = 0;
}

double ends_next(const struct ends *ends)
{
    return ends->due.count ? agenda_first(&ends->due)->time : INFINITY;
}

double ends_latency(const struct ends *ends)
{
    const struct train *train = agenda_first(&ends->due)->what;
    return train->hop == GONE ? 0.0 : train->segment->route->latency_s;
}

bool ends_take(struct ends *ends, double to_s, struct due_group *group)
{
    while (ends->due.count && agenda_first(&ends->due)->time <= to_s) {
        struct entry entry = agenda_pop(&ends->due);
        struct train *train = entry.what;
        train->expected--;
        if (train->hop == GONE) {
            if (!train->expected)
                train_free(ends->pool, train);
            continue;
        }
        if (entry.time != train->expected_s)
            continue; /* it has been expected at another time since */
        uint32_t end = group_end(train);
        double due_s = train->pieces[end - 1].time;
        if (due_s > entry.time) {
            expect(ends, train); /* more of them have come into sight */
            continue;
        }
        *group = (struct due_group){train, train->at, end, due_s};
        return true;
    }
    return false;
}

void ends_taken(struct ends *ends, const struct due_group *group)
{
    struct train *train = group->train;
    train->at = group->to;
    if (train->at < train->count) {
        expect(ends, train);
        return;
    }
    train->segment->at_end = NULL;
    train_gone(ends->pool, train);
}
