"""The peers of a node that send nothing any more.

Takes ranks, gives ranks; pure. A peer that has finished its work never comes back by itself. One that has left may come
back, and is heard of then. Peers that are only silent, and those that have crashed, are in neither group: they may come
back, or be slow.
"""

from __future__ import annotations

from collections.abc import Collection


class FinishedPeers:
    """Those that have finished, and those that have left."""

    def __init__(self) -> None:
        self.finished: set[int] = set()
        """Nothing can be sent to these."""
        self.gone: set[int] = set()
        """These, and those that have left and not been heard of since."""
        self._missed: set[int] = set()
        self._copy: frozenset[int] | None = None

    @property
    def ranks(self) -> frozenset[int]:
        """All of them; the same object until they change."""
        if self._copy is None:
            self._copy = frozenset(self.gone)
        return self._copy

    def finish(self, ranks: Collection[int]) -> None:
        """These have finished."""
        self.finished.update(ranks)
        self._go(ranks)

    def leave(self, rank: int) -> None:
        """This one has left."""
        self._go((rank,))

    def heard(self, rank: int) -> None:
        """A peer has sent something: it has not left, or is back."""
        if rank in self.gone and rank not in self.finished:
            self.live_again((rank,))

    def live_again(self, ranks: Collection[int]) -> None:
        """These have begun another life."""
        for those in (self.finished, self.gone, self._missed):
            those.difference_update(ranks)
        self._copy = None

    def first_missed(self, ranks: Collection[int]) -> list[int]:
        """Those of them that are missed for the first time, in ascending order."""
        found = sorted(set(ranks) - self._missed)
        self._missed.update(found)
        return found

    def _go(self, ranks: Collection[int]) -> None:
        self.gone.update(ranks)
        self._copy = None
