"""What happens to the nodes of a run, by the topology's events or by hand: one thing after the other.

Takes actions, gives when they were done; touches the nodes' processes, and asks control and the engine. What is asked
of the engine takes a while, and the run goes on meanwhile; so actions take turns, in the order in which they came.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Collection, Coroutine
from contextlib import suppress
from typing import Any

from testbed.control.rules import LEFT
from testbed.errors import PreflightRefused, TestbedError, UsageProblem
from testbed.protocol.fabric import Cut, Uncut
from testbed.records import Event
from testbed.runtimes.processes.context import RunContext
from testbed.topologies.model import NodeAction

KILL = "kill"
_NO_CRASH = "without an engine nodes cannot be cut off before: as kill"


class NodeActions:
    """For use inside a running event loop."""

    def __init__(self, context: RunContext) -> None:
        self._plan = context.plan
        self._control = context.control
        self._known = context.control.nodes
        self._log = context.log
        self._engine = context.engine
        self._nodes = context.nodes
        self._turn = asyncio.Lock()
        self._lived: set[int] = set()
        self._going: set[int] = set()
        """Alive, but about to end because something here wants it."""
        self._returning: set[int] = set()
        """They join as soon as they are gone."""
        self._owed: dict[int, str] = {}
        """What has happened to nodes whose processes were still being made: how they end, or that they pause."""
        self.paused: dict[int, float] = {}
        """Since when, by CLOCK_MONOTONIC."""

    def start(self, rank: int) -> None:
        """A node of the beginning."""
        self._lived.add(rank)
        self._control.expect(rank)
        self._nodes.start(rank, None, 0)

    async def happen(self, action: str, ranks: Collection[int], planned_t: float) -> float:
        """Does it, and writes it into control's log with the emulated time since when it holds, which it gives."""
        async with self._turn:
            since_s, remark = await self._act(action, tuple(ranks))
            t = self._control.now() if since_s is None else self._control.at(since_s)
            for rank in ranks:
                self._log.write(Event(t, action, remark, node=self._plan.nodes[rank].name, planned_t=planned_t))
            return t

    async def began(self, rank: int) -> None:
        """A node's process was made: what has happened to it meanwhile is done to it now."""
        async with self._turn:
            match self._owed.pop(rank, None):
                case NodeAction.PAUSE:
                    await self._pause([rank])
                case NodeAction.LEAVE:
                    self._leave(rank)
                case str():
                    self._kill([rank])

    def died(self, rank: int) -> Coroutine[Any, Any, None]:
        """A node's process is over; what is still to be done: nothing is kept open for it, and it may come back."""
        self.paused.pop(rank, None)
        self._going.discard(rank)
        self._owed.pop(rank, None)
        returns = rank in self._returning and not self._control.is_ending
        self._returning.discard(rank)
        if returns:
            self._control.expect(rank)  # or the run might be over meanwhile
        return self._clean_up_after(rank, returns=returns)

    async def _clean_up_after(self, rank: int, *, returns: bool) -> None:
        async with self._turn:
            if returns:
                await self._bring_back(rank)
            elif self._known.pid_of(rank) is None and not self._known.is_expected(rank):
                await self._detach(rank)  # else its next life has begun: what is open now belongs to that

    def why_not(self, action: str, rank: int) -> str | None:
        """What stands in the way of doing it to this node now, in words; nothing for what can be done."""
        lives = self._known.pid_of(rank) is not None and not self._known.has_ended(rank)
        match action:
            case NodeAction.JOIN:
                if not self._control.rules.may_join(rank):
                    return "has done all of its work"
                if self._is_about_to_go(rank):
                    return self._nodes.why_not_again(rank)
                if self._known.is_expected(rank):
                    return "is about to come already"
                return "lives already" if lives else self._nodes.why_not_again(rank)
            case NodeAction.DISCONNECT | NodeAction.RECONNECT:
                return None
            case NodeAction.RESUME:
                return None if rank in self.paused or self._owed.get(rank) == NodeAction.PAUSE else "is not paused"
        if not lives:
            return "does not live now"
        return "is about to go" if action == NodeAction.LEAVE and self._is_about_to_go(rank) else None

    def why_not_back(self, rank: int) -> str | None:
        """What stands in the way of bringing it back later; nothing for one that can be."""
        return self._nodes.why_not_again(rank)

    def may_come_back(self, rank: int, times: int) -> None:
        """The number of its lives was raised to that."""
        self._nodes.may_come_back(rank, times)

    def resume_all(self) -> None:
        """So that they can end."""
        for rank in list(self.paused):
            self._resume(rank)

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _act(self, action: str, ranks: tuple[int, ...]) -> tuple[float | None, str]:
        """Since when, where the engine knows it, and what else there is to say."""
        match action:
            case NodeAction.JOIN:
                for rank in ranks:
                    await self._join_when_gone(rank)
            case NodeAction.LEAVE:
                self._returning.difference_update(ranks)
                for rank in ranks:
                    self._resume(rank)
                    if self._is_being_made(rank):
                        self._owed[rank] = NodeAction.LEAVE
                    else:
                        self._leave(rank)
            case NodeAction.CRASH:
                return await self._crash(ranks)
            case NodeAction.PAUSE:
                for rank in ranks:
                    if self._is_being_made(rank):
                        self._owed.setdefault(rank, NodeAction.PAUSE)
                await self._pause([rank for rank in ranks if self._known.pid_of(rank) is not None])
            case NodeAction.RESUME:
                for rank in ranks:
                    self._resume(rank)
            case NodeAction.DISCONNECT:
                return await self._engine.change(lambda number: Cut(number, ranks)), ""
            case NodeAction.RECONNECT:
                return await self._engine.change(lambda number: Uncut(number, ranks)), ""
            case _:
                self._returning.difference_update(ranks)
                self._kill(ranks)
        return None, ""

    async def _crash(self, ranks: tuple[int, ...]) -> tuple[float, str]:
        """First nothing of them can leave any more; then they are killed, so that no farewell of the kernel's does."""
        self._returning.difference_update(ranks)
        remark = ""
        try:
            since_s = await self._engine.change(lambda number: Cut(number, ranks))
        except PreflightRefused:
            since_s, remark = time.monotonic(), _NO_CRASH
        finally:
            self._kill(ranks)
        return since_s, remark

    async def _join_when_gone(self, rank: int) -> None:
        if not self._control.rules.may_join(rank):
            return
        lives = self._known.pid_of(rank) is not None
        if self._is_about_to_go(rank) or (lives and self._known.has_ended(rank)):
            self._returning.add(rank)
        elif not lives:
            await self._join(rank)

    async def _join(self, rank: int) -> None:
        if not self._control.is_ending and not self._known.is_expected(rank):
            self._control.expect(rank)
            await self._bring_back(rank)

    async def _bring_back(self, rank: int) -> None:
        await self._detach(rank)  # before the next life brings its own
        with suppress(PreflightRefused, UsageProblem):  # without an engine nothing was cut
            await self._engine.change(lambda number: Uncut(number, (rank,)))
        rejoin, first_round = self._control.rules.next_life(has_lived=rank in self._lived)
        self._lived.add(rank)
        self._control.expect(rank)
        self._nodes.start(rank, rejoin, first_round)

    async def _detach(self, rank: int) -> None:
        with suppress(UsageProblem):
            await self._engine.detach(rank)

    def _kill(self, ranks: Collection[int]) -> None:
        for rank in ranks:
            if self._is_being_made(rank):
                self._owed[rank] = KILL
            else:
                self._doom(rank)
                self._nodes.signal(rank, signal.SIGKILL)

    def _leave(self, rank: int) -> None:
        self._doom(rank)
        self._known.halt(rank, LEFT)

    def _is_being_made(self, rank: int) -> bool:
        """Its process is being made: it can be done nothing to."""
        return self._known.pid_of(rank) is None and self._known.is_expected(rank)

    def _is_about_to_go(self, rank: int) -> bool:
        return rank in self._going or self._owed.get(rank, NodeAction.PAUSE) != NodeAction.PAUSE

    def _doom(self, rank: int) -> None:
        self._known.plan_death(rank)
        if self._known.pid_of(rank) is not None:
            self._going.add(rank)

    async def _pause(self, ranks: Collection[int]) -> None:
        """A node that is paused already stands still since then, whatever ends the pause now."""
        going = [rank for rank in ranks if rank not in self.paused]
        self.paused.update(dict.fromkeys(going, time.monotonic()))
        for rank in await self._nodes.pause(going, self.paused.__contains__):
            name = self._plan.nodes[rank].name
            self._log.write(Event(self._control.now(), "slot-kept", "it was paused while it computed", node=name))

    def _resume(self, rank: int) -> None:
        if self._owed.get(rank) == NodeAction.PAUSE:
            del self._owed[rank]
        since_s = self.paused.pop(rank, None)
        if since_s is not None:
            self._known.stood(rank, since_s)
            self._nodes.signal(rank, signal.SIGCONT)


def checked_action(action: str) -> str:
    """Raises UsageProblem for what cannot happen to a node."""
    if action != KILL and action not in set(NodeAction):
        raise UsageProblem(f"nothing called {action} can happen to a node")
    return action


def not_done(problem: TestbedError) -> str:
    """For control's log."""
    return f"{problem.message} ({problem.hint})" if problem.hint else problem.message
