"""Memory where nodes leave copies of their models to be averaged.

Takes numbers of nodes and parameters, gives rows of float32; touches anonymous memory, which is there as long as a
process of the run is, and has no name that could be left behind. Pages that are never written cost nothing.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from testbed.node.world import Vector
from testbed.protocol.nodes import SLOTS

_FREE, _TAKEN = 0, 1
_FLAGS_BYTES = 64
_LARGEST_BYTES = 1 << 30
"""Of one piece of memory: the kernel refuses what is larger than the machine's, though it is never filled."""


class ModelSlots(Protocol):
    """A few slots for every node, by rank."""

    def put(self, rank: int, vector: Vector, *, is_last: bool) -> int | None:
        """The slot that has a copy of it now; None when all of the node's are taken, but for that of its last round."""

    def vectors(self, ranks: Iterable[int], slots: Iterable[int]) -> list[Vector]:
        """What was left there; raises OSError or ValueError for what is no model."""

    def clear(self, ranks: Iterable[int], slots: Iterable[int]) -> None:
        """They may be filled again."""

    def keep_only(self, rank: int) -> None:
        """In a node's process, which is to reach no other's models."""


class SharedModels:
    """A few slots for every node. Make it before forking: a node fills its own, the zygote clears them."""

    def __init__(self, nodes: int, parameters: int) -> None:
        self._parameters = parameters
        # A node's own pages: its flags, and its slots behind them.
        self._node_bytes = mmap.PAGESIZE * -(-(_FLAGS_BYTES + 4 * SLOTS * parameters) // mmap.PAGESIZE)
        self._per_piece = max(1, _LARGEST_BYTES // self._node_bytes)
        left = range(0, nodes, self._per_piece)
        self._pieces = [np.frombuffer(mmap.mmap(-1, self._size(nodes - first)), np.uint8) for first in left]

    def _size(self, nodes: int) -> int:
        return min(nodes, self._per_piece) * self._node_bytes

    def keep_only(self, rank: int) -> None:
        """In a node's process: the others' models are not there any more, and there is no way back to them."""
        unmap = ctypes.CDLL(None, use_errno=True).munmap
        own, within = divmod(rank, self._per_piece)
        for number, piece in enumerate(self._pieces):
            begin = piece.ctypes.data
            spans = [(0, len(piece))]
            if number == own:
                at = within * self._node_bytes
                spans = [(0, at), (at + self._node_bytes, len(piece))]
            for first, last in spans:
                if last > first and unmap(ctypes.c_void_p(begin + first), ctypes.c_size_t(last - first)):
                    raise OSError(ctypes.get_errno(), "others' models cannot be put out of reach")

    def put(self, rank: int, vector: Vector, *, is_last: bool) -> int | None:
        """The slot that has a copy of it now; None when all of the node's are taken, but for that of its last round."""
        flags = self._flags(rank)
        free = np.flatnonzero(flags[: SLOTS if is_last else SLOTS - 1] == _FREE)
        if not len(free):
            return None
        slot = int(free[0])
        self._row(rank, slot)[:] = vector
        flags[slot] = _TAKEN  # last: a node that dies before has left nothing
        return slot

    def vectors(self, ranks: Iterable[int], slots: Iterable[int]) -> list[Vector]:
        """What was left there; not copies."""
        return [self._row(rank, slot) for rank, slot in zip(ranks, slots, strict=True)]

    def clear(self, ranks: Iterable[int], slots: Iterable[int]) -> None:
        """They may be filled again."""
        for rank, slot in zip(ranks, slots, strict=True):
            self._flags(rank)[slot] = _FREE

    def _own(self, rank: int) -> NDArray[np.uint8]:
        piece, within = divmod(rank, self._per_piece)
        return self._pieces[piece][within * self._node_bytes : (within + 1) * self._node_bytes]

    def _flags(self, rank: int) -> NDArray[np.uint8]:
        return self._own(rank)[:SLOTS]

    def _row(self, rank: int, slot: int) -> Vector:
        begin = _FLAGS_BYTES + 4 * slot * self._parameters
        row: Vector = self._own(rank)[begin : begin + 4 * self._parameters].view(np.float32)
        return row
