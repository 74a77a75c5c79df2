"""Which nodes of a run live, and how far each is in its life, as control knows it.

Takes ranks and process ids, gives what is known of them; keeps each node's connection.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from testbed.control.packets import PacketLink
from testbed.protocol.message import Message
from testbed.protocol.nodes import Halt, Stood, Unable
from testbed.records import End


@dataclass(slots=True)
class NodeProcess:
    """One life of a node."""

    pid: int
    link: PacketLink | None = None
    is_listening: bool = False
    """Whether peers can connect to it."""
    is_ready: bool = False
    has_begun: bool = False
    is_idle: bool = False
    end: End | None = None
    is_death_planned: bool = False
    """Its death is no failure: the topology's events, or the end of the run, want it."""
    halted: str | None = None
    """Why it was told to end, though it may not have connected yet."""
    unable: Unable | None = None
    """What it said before it gave up."""
    malformed: int = 0
    """Messages of it that could not be read."""
    heard_s: float = field(default_factory=time.monotonic)
    """When it said something last."""

    def send(self, message: Message) -> None:
        if self.link is not None:
            self.link.send(message)


class NodeTable:
    """All nodes whose processes are being made, or live; by rank."""

    def __init__(self) -> None:
        self._lives: dict[int, NodeProcess] = {}
        self._coming: set[int] = set()

    def __getitem__(self, rank: int) -> NodeProcess:
        return self._lives[rank]

    def __len__(self) -> int:
        """How many live or are expected to."""
        return len(self._lives) + len(self._coming)

    def get(self, rank: int) -> NodeProcess | None:
        return self._lives.get(rank)

    def expect(self, rank: int) -> None:
        """A process will be made for this node."""
        self._coming.add(rank)

    def expect_no_more(self) -> bool:
        """What has not come by now never will; whether anything was expected."""
        was_expected = bool(self._coming)
        self._coming.clear()
        return was_expected

    def started(self, rank: int, pid: int) -> NodeProcess:
        self._coming.discard(rank)
        life = self._lives[rank] = NodeProcess(pid)
        return life

    def remove(self, rank: int) -> None:
        del self._lives[rank]

    def plan_death(self, rank: int) -> bool:
        """The node's end is no failure, however it comes about; False for one that does not live."""
        life = self._lives.get(rank)
        if life is not None:
            life.is_death_planned = True
        return life is not None

    def halt(self, rank: int, reason: str) -> None:
        """The node ends in good order."""
        if (life := self._lives.get(rank)) is not None:
            life.halted = reason
            life.send(Halt(reason))

    def stood(self, rank: int, since_s: float) -> None:
        """A node that was stopped on purpose since then, by CLOCK_MONOTONIC, is about to go on: it must know why."""
        if (life := self._lives.get(rank)) is not None:
            life.send(Stood(since_s, time.monotonic()))

    def lives(self) -> Iterator[tuple[int, NodeProcess]]:
        return iter(list(self._lives.items()))

    @property
    def living(self) -> list[int]:
        return sorted(self._lives)

    @property
    def working(self) -> list[int]:
        """Those that have not said their last word."""
        return sorted(rank for rank, life in self._lives.items() if life.end is None)

    @property
    def is_any_coming(self) -> bool:
        return bool(self._coming)

    def is_expected(self, rank: int) -> bool:
        """Whether its process is being made."""
        return rank in self._coming

    def has_ended(self, rank: int) -> bool:
        """Whether the node has said its last word, though its process may not be over."""
        life = self._lives.get(rank)
        return life is None or life.end is not None

    def pid_of(self, rank: int) -> int | None:
        life = self._lives.get(rank)
        return None if life is None else life.pid

    def unconnected(self, pid: int) -> int | None:
        """The rank of a process that has not connected yet."""
        return next((rank for rank, life in self._lives.items() if life.pid == pid and life.link is None), None)

    def not_listening(self, ranks: Collection[int]) -> list[int]:
        """Those of them that have not come, or to which no peer can connect yet."""
        return [rank for rank in ranks if rank not in self._lives or not self._lives[rank].is_listening]

    def not_ready(self, ranks: Collection[int]) -> list[int]:
        """Those of them that have not come, or have not said that they are."""
        return [rank for rank in ranks if rank not in self._lives or not self._lives[rank].is_ready]

    def unheard(self, after_s: float) -> dict[int, float]:
        """For how long nothing has been heard of nodes that are at work, by rank, where it is that long."""
        now_s = time.monotonic()
        silent = {rank: now_s - life.heard_s for rank, life in sorted(self._lives.items()) if life.has_begun}
        return {rank: for_s for rank, for_s in silent.items() if for_s >= after_s and not self.has_ended(rank)}
