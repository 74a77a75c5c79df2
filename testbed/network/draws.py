"""Random numbers of the network models: SplitMix64, numbered draws, and normal variates from an integer table.

Takes the key of a stream and the number of a draw, gives a word, a uniform or a normal number; touches nothing. Draw n
of a stream depends on its key and on n alone. All of it is integers and exact divisions by powers of two, so that any
language and any machine gets the same bits: docs/internals/random-numbers.md is the specification.

`word`, `uniform` and `normal` are that specification, number by number. `uniforms` and `normals` give the same numbers
in order, worked out in blocks, which takes a tenth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from testbed.network.normal_table import NORMAL, OCTAVES, SEGMENTS, UNIT

_GAMMA, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""SplitMix64's."""
_MASK = 2**64 - 1
_BITS = 53
"""Of a number between 0 and 1."""
_BELOW = _BITS - OCTAVES
"""Bits of a number between 0 and 1 that is smaller than any in the table."""
_SEGMENT_AT, _SEGMENT = 48, SEGMENTS - 1
_REST_BITS, _REST_AT, _REST = 24, 24, 2**24 - 1
"""Where the parts of a number lie once its highest bit is bit 52, and their masks."""
_SHORTEST_BLOCK, _LONGEST_BLOCK = 16, 512

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]


def word(key: int, number: int) -> int:
    """The 64 bits of a draw: output `number` of SplitMix64 that starts from `key`, counted from 1."""
    z = (key + number * _GAMMA) & _MASK
    z = ((z ^ (z >> 30)) * _FIRST) & _MASK
    z = ((z ^ (z >> 27)) * _SECOND) & _MASK
    return z ^ (z >> 31)


def uniform(bits: int) -> float:
    """Between 0 and 1, never one of them."""
    return (bits >> 11 | 1) * 2.0**-_BITS


def normal(bits: int) -> float:
    """Of the standard normal distribution, from the word of one draw; never farther than 5.9 from 0."""
    tail = max((bits << 1 & _MASK) >> 11 | 1, 1 << _BELOW)
    length = tail.bit_length()
    tail <<= _BITS - length
    entry = (length - 1 - _BELOW) * SEGMENTS + (tail >> _SEGMENT_AT & _SEGMENT)
    rest = tail >> _REST_AT & _REST
    size = NORMAL[entry] - ((NORMAL[entry] - NORMAL[entry + 1]) * rest >> _REST_BITS)
    return -size * UNIT if bits >> 63 else size * UNIT


def times_in_a_row(chance: float, draw: float) -> float:
    """How often in a row something happens that has this chance: the largest n whose power of it exceeds the draw.

    Infinite where the chance is 1. Only products are formed, in the order of the specification: no logarithm, which
    libraries round differently.
    """
    if chance >= 1.0:
        return math.inf
    powers = [chance]
    while powers[-1] > draw:
        powers.append(powers[-1] * powers[-1])
    times, product = 0, 1.0
    for exponent in reversed(range(len(powers))):
        if product * powers[exponent] > draw:
            product *= powers[exponent]
            times += 1 << exponent
    return times


def uniforms(key: int) -> Callable[[], float]:
    """The uniform numbers of a stream, one each call, from draw 1 on."""
    return _in_order(key, _uniform_block)


def normals(key: int) -> Callable[[], float]:
    """The normal numbers of a stream, one each call, from draw 1 on."""
    return _in_order(key, _normal_block)


def _in_order(key: int, block: Callable[[Words], Floats]) -> Callable[[], float]:
    blocks: Iterator[list[float]] = (block(words).tolist() for words in _words(key))
    return chain.from_iterable(blocks).__next__


def _words(key: int) -> Iterator[Words]:
    """All words of a stream in blocks, which start short: many streams are hardly used."""
    first, count = 1, _SHORTEST_BLOCK
    while True:
        z = np.arange(first, first + count, dtype=np.uint64) * np.uint64(_GAMMA) + np.uint64(key)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
        yield z ^ (z >> np.uint64(31))
        first, count = first + count, min(2 * count, _LONGEST_BLOCK)


def _uniform_block(words: Words) -> Floats:
    found: Floats = (words >> np.uint64(11) | np.uint64(1)).astype(np.float64) * 2.0**-_BITS
    return found


def _normal_block(words: Words) -> Floats:
    tail = np.maximum(((words << np.uint64(1)) >> np.uint64(11) | np.uint64(1)).astype(np.int64), 1 << _BELOW)
    length = np.frexp(tail.astype(np.float64))[1].astype(np.int64)  # exact: 53 bits at most
    tail <<= _BITS - length
    entry = (length - 1 - _BELOW) * SEGMENTS + (tail >> _SEGMENT_AT & _SEGMENT)
    rest = tail >> _REST_AT & _REST
    size = _TABLE[entry] - ((_TABLE[entry] - _TABLE[entry + 1]) * rest >> _REST_BITS)
    found: Floats = np.where(words >> np.uint64(63), -size, size) * UNIT
    return found


_TABLE = np.array(NORMAL, dtype=np.int64)
