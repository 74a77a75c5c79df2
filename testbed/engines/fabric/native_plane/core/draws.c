#include "draws.h"

uint64_t draw_word(struct stream *stream)
{
    uint64_t z = stream->key + ++stream->drawn * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

double draw_uniform(struct stream *stream)
{
    return (double)(draw_word(stream) >> 11 | 1) * 0x1p-53;
}

double draw_normal(struct stream *stream, const int64_t *table)
{
    uint64_t word = draw_word(stream);
    uint64_t tail = (word << 1) >> 11 | 1;
    if (tail < UINT64_C(1) << 25)
        tail = UINT64_C(1) << 25;
    unsigned length = 64u - (unsigned)__builtin_clzll(tail);
    tail <<= 53u - length;
    uint64_t entry = (uint64_t)(length - 26u) * 16u + (tail >> 48 & 15u);
    int64_t rest = (int64_t)(tail >> 24 & 0xFFFFFFu);
    int64_t size = table[entry] - (((table[entry] - table[entry + 1]) * rest) >> 24);
    double found = (double)size * 0x1p-32;
    return word >> 63 ? -found : found;
}
