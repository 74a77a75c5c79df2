"""The randomness of the fluid model: every draw is named by the connection and by its own count there.

Takes a seed and names, gives numbers; touches nothing. A draw depends on nothing but its name, so neither the order
of connections nor how far others have come shifts it. The generator is that of the packet model (`network/draws`).
"""

from __future__ import annotations

import math
from functools import cached_property

from testbed.network.draws import normal, times_in_a_row, uniform, word
from testbed.seeds import derive


class Draws:
    """Draws of one connection, from when it opened until a node at its end dies."""

    def __init__(self, seed: int, origin: int, dest: int, opened: int) -> None:
        self._seed = seed
        self._name = f"{origin}>{dest}.{opened}"
        self._count = 0

    @cached_property
    def _loss_key(self) -> int:
        return derive(self._seed, "flows", "loss", self._name)

    @cached_property
    def _jitter_key(self) -> int:
        return derive(self._seed, "flows", "jitter", self._name)

    def uniform(self) -> float:
        """Above 0 and below 1; the next of the connection's losses."""
        self._count += 1
        return uniform(word(self._loss_key, self._count))

    def segments_until_loss(self, loss: float) -> float:
        """How many segments get through before one is lost, and how much of that one: never, where nothing is lost."""
        if loss <= 0.0:
            return math.inf
        return times_in_a_row(1.0 - loss, self.uniform()) + self.uniform()

    def failures(self, loss: float, most: int) -> int:
        """How many times in a row something is lost that is sent until it gets through; no more than so many."""
        if loss <= 0.0:
            return 0
        return int(min(times_in_a_row(loss, self.uniform()), most))

    def normal(self, message: int) -> float:
        """Of the standard normal distribution, for the message with that number."""
        return normal(word(self._jitter_key, message))
