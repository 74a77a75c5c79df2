"""Files where nodes leave copies of their models to be averaged: between containers, in place of shared memory.

Takes a folder for each rank, gives vectors; touches files in those folders. A learner can write into its own only, and
whatever it writes there, it is read as numbers of the right count or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from testbed.node.world import Vector
from testbed.protocol.nodes import SLOTS
from testbed.rundir import NodeDirectory
from testbed.runtimes.tracking.removal import clear_away

_NO_SURPRISE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Links are not followed, and opening a pipe does not wait."""


class ModelFiles:
    """A few slots for every node; a slot is taken while its file is there."""

    def __init__(self, directories: Sequence[NodeDirectory], parameters: int) -> None:
        """By rank; a node that knows only its own has that in all places."""
        self._directories = directories
        self._parameters = parameters

    def put(self, rank: int, vector: Vector, *, is_last: bool) -> int | None:
        """The slot that has a copy of it now; None when all are taken, but for that of the node's last round."""
        for slot in range(SLOTS if is_last else SLOTS - 1):
            path = self._path(rank, slot)
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                part = path.with_suffix(".part")
                part.write_bytes(np.ascontiguousarray(vector, np.float32).data)
                os.replace(part, path)
                return slot
        return None

    def vectors(self, ranks: Iterable[int], slots: Iterable[int]) -> list[Vector]:
        """What was left there; raises OSError or ValueError for what is no model of this run."""
        return [self._read(rank, slot) for rank, slot in zip(ranks, slots, strict=True)]

    def keep_only(self, rank: int) -> None:
        """They lie in the nodes' own folders, which others do not see."""

    def clear(self, ranks: Iterable[int], slots: Iterable[int]) -> None:
        """They may be filled again."""
        for rank, slot in zip(ranks, slots, strict=True):
            with suppress(OSError), _opened(self._directories[rank]) as folder:
                os.unlink(_name(slot), dir_fd=folder)

    def _path(self, rank: int, slot: int) -> Path:
        return _folder(self._directories[rank]) / _name(slot)

    def _read(self, rank: int, slot: int) -> Vector:
        wanted = 4 * self._parameters
        with _opened(self._directories[rank]) as folder:
            descriptor = os.open(_name(slot), os.O_RDONLY | _NO_SURPRISE, dir_fd=folder)
        with open(descriptor, "rb") as file:
            data = file.read(wanted + 1) or b""  # a pipe without a writer gives nothing at all
        if len(data) != wanted:
            raise ValueError(f"{_name(slot)} of rank {rank} holds {len(data)} bytes, a model has {wanted}")
        return np.frombuffer(data, np.float32)


def remove_models(directory: NodeDirectory) -> None:
    """Nothing of them is a result."""
    clear_away(_folder(directory))


@contextmanager
def _opened(directory: NodeDirectory) -> Iterator[int]:
    """The folder itself: where it leads elsewhere, there is none."""
    descriptor = os.open(_folder(directory), os.O_RDONLY | os.O_DIRECTORY | _NO_SURPRISE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _name(slot: int) -> str:
    return f"{slot}.f32"


def _folder(directory: NodeDirectory) -> Path:
    return directory.path / "left-models"
