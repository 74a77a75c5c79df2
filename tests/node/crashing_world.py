"""A small world whose nodes crash, and come back as `rejoin` says.

Takes a world and crashes, gives its outcome; touches what `World.folders` names. What is on its way from or to a node
that is down is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from testbed.node.life import Life
from testbed.node.messages import Message
from testbed.node.node import Node
from tests.node.small_world import BUILD, Outcome, World, _Running, plans


class Crash(NamedTuple):
    """One crash of one node."""

    t: float
    rank: int
    back_s: float | None = None
    """How long it is down; None: for ever."""
    rejoin: str = "fresh"


class CrashingWorld(_Running):
    """All nodes of a world, in all their lives."""

    def __init__(self, world: World, crashes: Sequence[Crash]) -> None:
        self.down: set[int] = set()
        """Ranks of nodes that are dead now."""
        self._lost = world.lost
        super().__init__(replace(world, lost=self._is_lost))
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._back: dict[int, asyncio.Future[bool]] = {}
        for crash in crashes:
            self._clock.call_at(crash.t, self._later(crash))

    @property
    def nodes(self) -> list[Node]:
        """Those that live, or lived last."""
        return self._nodes

    def run(self) -> Outcome:
        return super().run()

    def _is_lost(self, sender: int, to: int, message: Message) -> bool:
        return to in self.down or self._lost(sender, to, message)

    def _later(self, crash: Crash) -> Callable[[], None]:
        return lambda: self._crash(crash)

    def _crash(self, crash: Crash) -> None:
        rank = crash.rank
        if rank in self.down or rank in self._network.ended:
            return
        self.down.add(rank)
        for arrival in self._network._under_way:
            if arrival.sender == rank:
                arrival.parcel.aborted = True
        self._back[rank] = asyncio.get_running_loop().create_future()
        if crash.back_s is None:
            self._back[rank].set_result(False)
        else:
            self._clock.call_at(self._clock.now() + crash.back_s, lambda: self._return(rank, crash.rejoin))
        self._tasks[rank].cancel()

    def _return(self, rank: int, rejoin: str) -> None:
        living = [node.rounds_done for node in self._nodes if node.rank not in self.down]
        first_round = min(living, default=0)
        plan = plans(self._world)[rank]
        self._nodes[rank] = self._node(plan, first_round, has_snapshot=rejoin == "last")
        self._lives[rank] = Life(self._nodes[rank], BUILD, rejoin)
        self.down.remove(rank)
        self._back[rank].set_result(True)

    async def _live(self, rank: int) -> None:
        while True:
            self._tasks[rank] = asyncio.ensure_future(super()._live(rank))
            try:
                await self._tasks[rank]
                return
            except asyncio.CancelledError:
                if rank not in self.down:
                    raise
            if not await self._back[rank]:
                self._done[rank].set_result(None)
                return
