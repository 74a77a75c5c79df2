"""Silent peers: those of which nothing was heard for as long as the experiment allows (`missing.after`).

Takes waits and messages that were given up, says which peers are silent; touches nothing. Waiting and sending share it,
so that a dead peer costs its timeout once, whatever notices it first.
"""

from __future__ import annotations

from collections.abc import Mapping

from testbed.node.world import Clock


class SilentPeers:
    """A peer is silent from the end of a timeout until something is heard from it."""

    def __init__(self, clock: Clock, heard: Mapping[int, float], after_s: float, *, gives_up: bool) -> None:
        """`heard`: when the last message of each peer arrived. `gives_up`: the experiment does not say to wait on."""
        self.clock = clock
        self.after_s = after_s
        self.gives_up = gives_up
        self._heard = heard
        self._sends_nothing: dict[int, float] = {}
        """When a wait for its messages was given up."""
        self._takes_nothing: dict[int, float] = {}
        """When a message to it was given up."""

    def __contains__(self, rank: int) -> bool:
        return self._is_in(self._sends_nothing, rank) or self._is_in(self._takes_nothing, rank)

    def sends_nothing(self, rank: int) -> None:
        """A wait for its messages was in vain. Only a message of it ends this silence."""
        self._sends_nothing[rank] = self.clock.now()

    def takes_nothing(self, rank: int) -> bool:
        """A message to it made no progress; gives whether that is the first one of this silence."""
        if self._is_in(self._takes_nothing, rank):
            return False
        self._takes_nothing[rank] = self.clock.now()
        return True

    def has_taken(self, rank: int) -> None:
        """A message has left for it, on a connection made after the last one was given up."""
        self._takes_nothing.pop(rank, None)

    def _is_in(self, since: Mapping[int, float], rank: int) -> bool:
        return rank in since and self._heard.get(rank, -1.0) <= since[rank]
