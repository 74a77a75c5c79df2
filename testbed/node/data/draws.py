"""Random draws in bulk that are the same on every machine and with every version of numpy.

Takes a stream of `testbed.seeds`, gives arrays; touches nothing. Only what Python guarantees never to change is
drawn from a stream (`random()` and its bits), and only additions and comparisons are made with it.
"""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

_TERMS = 12


def permutation(stream: Random, count: int) -> NDArray[np.int64]:
    """All whole numbers below `count` in random order."""
    draws = np.fromiter((stream.random() for _ in range(count)), np.float64, count)
    return np.argsort(draws, kind="stable")


def normals(stream: Random, *shape: int) -> NDArray[np.float64]:
    """Numbers of mean 0 and variance 1 that are nearly normal: sums of uniform ones, exact on every processor."""
    count = int(np.prod(shape))
    uniform = np.frombuffer(stream.randbytes(2 * _TERMS * count), "<u2").reshape(count, _TERMS)
    sums = uniform.sum(axis=1, dtype=np.int64)
    values: NDArray[np.float64] = (sums - _TERMS * 0x7FFF - _TERMS // 2) / 65536.0
    return values.reshape(shape)
