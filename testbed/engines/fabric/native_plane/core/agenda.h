/* A binary heap of what happens next: by time, then by key, then by piece. */

#ifndef TESTBED_AGENDA_H
#define TESTBED_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct entry {
    double time;
    uint64_t key;
    uint32_t piece;
    void *what;
};

struct agenda {
    struct entry *entries;
    size_t count, capacity;
};

static inline bool entry_before(const struct entry *one, const struct entry *other)
{
    if (one->time != other->time)
        return one->time < other->time;
    if (one->key != other->key)
        return one->key < other->key;
    return one->piece < other->piece;
}

/* The first entry; there must be one. */
static inline const struct entry *agenda_first(const struct agenda *agenda)
{
    return &agenda->entries[0];
}

/* Adds an entry; tells whether it is now the first. */
bool agenda_add(struct agenda *agenda, struct entry entry);

/* Removes and returns the first entry; there must be one. */
struct entry agenda_pop(struct agenda *agenda);

/* Frees the entries; what they point to is left alone. */
void agenda_free(struct agenda *agenda);

#endif
