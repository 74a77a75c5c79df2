"""Which samples make up a learner's minibatch at a local step.

Takes a seed, a learner and the number of a step, gives positions among the learner's samples; touches nothing. There is
no state: any process can compute any step of any learner, in any order, with the same result.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from testbed.seeds import derive

_REMEMBERED = 256
"""Cached orders: usually one per learner, so that an order is computed once per epoch."""


class Minibatches:
    """Every epoch goes through the samples in a new order, cut into batches of one size.

    Samples left at an epoch's end that do not fill a batch are not used in that epoch, so that every batch is full and
    has no sample twice. A learner with fewer samples than a batch takes all of them in every step.
    """

    def __init__(self, seed: int, batch: int) -> None:
        self._seed = seed
        self._batch = batch
        self._order = lru_cache(maxsize=_REMEMBERED)(self._fresh_order)

    def size(self, samples: int) -> int:
        """Samples in each batch of a learner with that many samples."""
        return min(self._batch, samples)

    def per_epoch(self, samples: int) -> int:
        """Local steps in one pass over that many samples."""
        return max(1, samples // self._batch)

    def positions(self, learner: int, samples: int, step: int) -> NDArray[np.int32]:
        """Positions, among the learner's own samples, of the batch of a local step (counted from 0 over the run)."""
        epoch, number = divmod(step, self.per_epoch(samples))
        size = self.size(samples)
        return self._order(learner, samples, epoch)[number * size : (number + 1) * size]

    def _fresh_order(self, learner: int, samples: int, epoch: int) -> NDArray[np.int32]:
        # Sorting raw output: numpy promises that the bits of a generator stay the same between versions, but not how
        # it makes a permutation of them.
        bits = np.random.PCG64(derive(self._seed, "minibatch", str(learner), str(epoch)))
        return np.argsort(bits.random_raw(samples), kind="stable").astype(np.int32)
