#include "agenda.h"

#include "pool.h"

#include <stdlib.h>

bool agenda_add(struct agenda *agenda, struct entry entry)
{
    if (agenda->count == agenda->capacity) {
        agenda->capacity = agenda->capacity ? 2 * agenda->capacity : 4;
        agenda->entries = memory_grown(agenda->entries, agenda->capacity, sizeof entry);
    }
    struct entry *entries = agenda->entries;
    size_t at = agenda->count++;
    while (at > 0) {
        size_t above = (at - 1) / 2;
        if (!entry_before(&entry, &entries[above]))
            break;
        entries[at] = entries[above];
        at = above;
    }
    entries[at] = entry;
    return at == 0;
}

struct entry agenda_pop(struct agenda *agenda)
{
    struct entry *entries = agenda->entries;
    struct entry first = entries[0], last = entries[--agenda->count];
    size_t at = 0, count = agenda->count;
    for (size_t below = 1; below < count; below = 2 * at + 1) {
        if (below + 1 < count && entry_before(&entries[below + 1], &entries[below]))
            below++;
        if (!entry_before(&entries[below], &last))
            break;
        entries[at] = entries[below];
        at = below;
    }
    if (count)
        entries[at] = last;
    return first;
}

void agenda_free(struct agenda *agenda)
{
    free(agenda->entries);
    *agenda = (struct agenda){0};
}
