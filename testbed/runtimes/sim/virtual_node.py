"""One life of a node in virtual time: what it is made of, and how the run begins, pauses and ends it.

Takes the node's plan and what the run gives it, gives a task; touches its journal and its log.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress

from testbed.journal import CannotWrite, Journal
from testbed.node.life import TOLD, Life, Reason
from testbed.node.node import Node
from testbed.node.snapshots import newest_snapshot
from testbed.node.world import Observer, Transport
from testbed.plan.model import NodePlan
from testbed.records import Build
from testbed.rundir import NodeDirectory
from testbed.runtimes.sim.clock import NodeClock, VirtualClock
from testbed.runtimes.sim.compute import Shared, SimCompute


class VirtualNode:
    """One life; a node that comes back has another one."""

    def __init__(
        self,
        plan: NodePlan,
        directory: NodeDirectory,
        shared: Shared,
        clock: VirtualClock,
        transport: Transport,
        observer: Observer,
        build: Build,
        rejoin: str | None,
        first_round: int,
    ) -> None:
        """`rejoin` says what a node begins with that comes later; None for one of the beginning."""
        self._directory = directory
        self.clock = NodeClock(clock)
        self._compute = SimCompute(shared, plan, self.clock)
        saved = newest_snapshot(directory.snapshots, shared.initial.size) if rejoin == "last" else None
        self._compute.begin_anew()
        self._journal = Journal(directory.journal)
        node = Node(
            plan,
            clock=self.clock,
            transport=transport,
            compute=self._compute,
            journal=self._journal,
            observer=observer,
            snapshot=saved,
            first_round=first_round,
            snapshots=directory.snapshots,
        )
        self.life = Life(node, build, rejoin)
        self._task: asyncio.Task[Reason] | None = None
        self.is_over = False
        """Whether the run knows that it has ended."""

    def begin(self, others_done: Callable[[], Awaitable[None]], over: Callable[[asyncio.Task[Reason]], None]) -> None:
        """`over` is called, once, when it has ended, however that came."""

        def ended(task: asyncio.Task[Reason]) -> None:
            self.is_over = True
            self.clock.stop()
            self._compute.abandon()
            over(task)

        self._task = asyncio.ensure_future(self.life.live(others_done))
        self._task.add_done_callback(ended)

    @property
    def lives(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def is_ending(self) -> bool:
        """It leaves, or has just crashed."""
        return self.life.is_ending or (self._task is not None and self._task.cancelling() > 0)

    def crash(self) -> None:
        """It dies without a last word."""
        self.clock.stop()
        with suppress(*TOLD):
            self.life.node.settle_evaluations()
        if self._task is not None:
            self._task.cancel()
        self._journal.close()

    def close(self) -> None:
        self._journal.close()

    def write_traceback(self) -> None:
        """Into the node's log, as in every runtime: how its code came to where it failed."""
        if self.life.raised is None:
            return
        try:
            with self._directory.log.open("a") as log:
                traceback.print_exception(self.life.raised, file=log)
        except OSError as problem:
            raise CannotWrite(f"cannot write {self._directory.log}: {problem.strerror or problem}") from problem
