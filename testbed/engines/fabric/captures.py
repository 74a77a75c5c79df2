"""Which nodes' packets are being captured, for which connection and into which file.

Takes requests, gives nothing; the data plane writes the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from testbed.engines.fabric.data_plane import DataPlane
from testbed.errors import UsageProblem


class _Capture(NamedTuple):
    path: Path
    asker: int


class Captures:
    """One a node at most, which ends at the latest with the connection that has asked for it."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self._captures: dict[int, _Capture] = {}
        """By rank."""

    def begin(self, rank: int, path: Path, asker: int) -> None:
        """Raises UsageProblem where the file cannot be written, or the node or the file is in use already."""
        before = self._captures.get(rank)
        if before is not None:
            raise UsageProblem("the node's packets are being captured already", f"into {before.path}; one at a time")
        if any(_is_same(path, each.path) for each in self._captures.values()):
            raise UsageProblem(f"another node's packets are being captured into {path}", "take another file")
        try:
            self._plane.begin_capture(rank, path)
        except OSError as problem:
            raise UsageProblem(f"cannot write {path}: {problem.strerror}") from None
        self._captures[rank] = _Capture(path, asker)

    def end(self, rank: int, asker: int) -> None:
        """Raises UsageProblem for another connection's capture, and, once it is closed, for one that lacks packets."""
        capture = self._captures.get(rank)
        if capture is None:
            return
        if capture.asker != asker:
            raise UsageProblem("another command captures the node's packets")
        del self._captures[rank]
        why = self._plane.end_capture(rank)
        if why is not None:
            raise UsageProblem(f"{capture.path} does not have all packets: {why}", "those before are in it")

    def forget(self, asker: int) -> None:
        """The connection is closed."""
        for rank in [rank for rank, each in self._captures.items() if each.asker == asker]:
            del self._captures[rank]
            self._plane.end_capture(rank)


def _is_same(one: Path, other: Path) -> bool:
    """Whether both are names of one file."""
    try:
        return one.samefile(other)
    except OSError:
        return False
