/* Random numbers as docs/internals/random-numbers.md specifies them, bit by bit. */

#ifndef TESTBED_DRAWS_H
#define TESTBED_DRAWS_H

#include <stdint.h>

enum { NORMAL_ENTRIES = 449 };

/* Draws of one purpose: draw n depends on the key and on n alone. */
struct stream {
    uint64_t key, drawn;
};

/* The 64 bits of a stream's next draw. */
uint64_t draw_word(struct stream *stream);

/* The next draw as a number between 0 and 1, never one of them. */
double draw_uniform(struct stream *stream);

/* The next draw as a standard normal number, from the specified table of NORMAL_ENTRIES. */
double draw_normal(struct stream *stream, const int64_t *table);

#endif
