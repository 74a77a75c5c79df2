"""The randomness of the fluid model: every draw is named by the connection and by its own count there.

Takes a seed and names, gives numbers; touches nothing. A draw depends on nothing but its name, so neither the order
of connections nor how far others have come shifts it.
"""

from __future__ import annotations

import math

from testbed.seeds import derive

_WORD = 2.0**64
_HALF = 2.0**32


class Draws:
    """Draws of one connection, from when it opened until a node at its end dies."""

    __slots__ = ("_count", "_name", "_seed")

    def __init__(self, seed: int, origin: int, dest: int, opened: int) -> None:
        self._seed = seed
        self._name = f"{origin}>{dest}.{opened}"
        self._count = 0

    def uniform(self) -> float:
        """Above 0 and below 1; the next of the connection's losses."""
        self._count += 1
        return (derive(self._seed, "flows", "loss", self._name, str(self._count)) + 0.5) / _WORD

    def segments_until_loss(self, loss: float) -> float:
        """How many segments get through before one is lost, and how much of that one: never, where nothing is lost."""
        if loss <= 0.0:
            return math.inf
        through = 0.0 if loss >= 1.0 else math.floor(math.log(self.uniform()) / math.log1p(-loss))
        return through + self.uniform()

    def failures(self, loss: float, most: int) -> int:
        """How many times in a row something is lost that is sent until it gets through; no more than so many."""
        if loss <= 0.0:
            return 0
        return most if loss >= 1.0 else int(min(math.log(self.uniform()) / math.log(loss), most))

    def normal(self, message: int) -> float:
        """Of the standard normal distribution, for one message."""
        word = derive(self._seed, "flows", "jitter", self._name, str(message))
        radius = math.sqrt(-2.0 * math.log((word // 2**32 + 0.5) / _HALF))
        return radius * math.cos(2.0 * math.pi * (word % 2**32) / _HALF)
