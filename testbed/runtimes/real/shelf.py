"""Memory where nodes leave copies of their models to be averaged.

Takes numbers of nodes and parameters, gives rows of float32; touches anonymous memory, which is there as long as a
process of the run is, and has no name that could be left behind. Pages that nobody writes cost nothing.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from testbed.node.world import Vector
from testbed.protocol.nodes import SLOTS

_FREE, _TAKEN = 0, 1
_LARGEST_BYTES = 1 << 30
"""Of one piece of memory: the kernel refuses what is larger than the machine's, though nobody means to fill it."""


MEMORY, FILES = "memory", "files"
"""What a run's shelf is made of."""


class AnyShelf(Protocol):
    """A few slots for every node, by rank."""

    def put(self, rank: int, vector: Vector, *, is_last: bool) -> int | None:
        """The slot that has a copy of it now; None when all of the node's are taken, but for that of its last round."""

    def vectors(self, ranks: Iterable[int], slots: Iterable[int]) -> list[Vector]:
        """What was left there; raises OSError or ValueError for what is no model."""

    def clear(self, ranks: Iterable[int], slots: Iterable[int]) -> None:
        """They may be filled again."""


class Shelf:
    """A few slots for every node. Make it before forking: a node fills its own, whoever judges clears them."""

    def __init__(self, nodes: int, parameters: int) -> None:
        self._flags = np.frombuffer(mmap.mmap(-1, nodes * SLOTS), np.uint8).reshape(nodes, SLOTS)
        self._per_piece = max(1, _LARGEST_BYTES // (4 * SLOTS * parameters))
        pieces = -(-nodes // self._per_piece)
        self._pieces = [
            np.frombuffer(mmap.mmap(-1, 4 * size), np.float32).reshape(-1, SLOTS, parameters)
            for size in [min(nodes, self._per_piece) * SLOTS * parameters] * pieces
        ]

    def put(self, rank: int, vector: Vector, *, is_last: bool) -> int | None:
        """The slot that has a copy of it now; None when all of the node's are taken, but for that of its last round."""
        free = np.flatnonzero(self._flags[rank, : SLOTS if is_last else SLOTS - 1] == _FREE)
        if not len(free):
            return None
        slot = int(free[0])
        self._row(rank, slot)[:] = vector
        self._flags[rank, slot] = _TAKEN  # last: a node that dies before has left nothing
        return slot

    def vectors(self, ranks: Iterable[int], slots: Iterable[int]) -> list[Vector]:
        """What was left there; not copies."""
        return [self._row(rank, slot) for rank, slot in zip(ranks, slots, strict=True)]

    def clear(self, ranks: Iterable[int], slots: Iterable[int]) -> None:
        """They may be filled again."""
        for rank, slot in zip(ranks, slots, strict=True):
            self._flags[rank, slot] = _FREE

    def _row(self, rank: int, slot: int) -> Vector:
        piece, within = divmod(rank, self._per_piece)
        row: Vector = self._pieces[piece][within, slot]
        return row
