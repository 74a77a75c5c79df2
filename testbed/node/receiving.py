"""The messages that a node waits for, takes and handles.

Takes what is in the mailbox, gives it to the algorithm; touches nothing besides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeVar

from testbed.node.background import Background
from testbed.node.kinds import NEVER_SENT, check_kind
from testbed.node.mailbox import arrival
from testbed.node.messages import Received
from testbed.node.round_account import WAIT
from testbed.node.sending import Ports, SendingNode
from testbed.plan.model import NodePlan

_Result = TypeVar("_Result")
Handler = Callable[[Received], Awaitable[object] | None]


class ServerDone(Exception):
    """The server has finished, and this node has missed its last message."""


class ReceivingNode(SendingNode):
    """The part of a node that receives."""

    background: Background
    """The tasks beside `run`; set by the node's life, which ends them."""

    def __init__(self, plan: NodePlan, ports: Ports, first_round: int) -> None:
        super().__init__(plan, ports, first_round)
        self._handlers: dict[str, Handler] = {}

    async def receive(self, *kinds: str, sender: int | None = None, timeout_s: float | None = None) -> Received | None:
        """The next message (of some kinds, of one sender), in the order of arrival; None after the timeout.

        Waiting for one sender also ends with None once that node has finished and nothing of it is left here. Which
        message is first of those that arrive at one instant is chance: `receive_all` sorts them.
        """
        return await self.receive_any_kind(self._check_kinds(kinds), timeout_s, sender)

    async def receive_any_kind(
        self, kinds: Collection[str], timeout_s: float | None = None, sender: int | None = None
    ) -> Received | None:
        """`receive`, also of kinds that nodes use among themselves."""
        received = await self._next(kinds, timeout_s, sender)
        return None if received is None else self._handed_over([received])[0]

    async def receive_all(self, *kinds: str, timeout_s: float | None = None) -> list[Received]:
        """All messages (of some kinds) that are here, or else the next; by arrival, then rank. Empty after the
        timeout."""
        return await self.receive_all_any_kind(self._check_kinds(kinds), timeout_s)

    async def receive_all_any_kind(self, kinds: Collection[str], timeout_s: float | None = None) -> list[Received]:
        """`receive_all`, also of kinds that nodes use among themselves."""
        return self._handed_over(await self._all(kinds, timeout_s))

    async def newest(self, *kinds: str, sender: int | None = None) -> Received | None:
        """The message of the latest round among those that are here, or else the next; the others expire.

        With `sender` only messages of that node count; None once it has finished and nothing of it is left here.
        """
        received = await self._all(self._check_kinds(kinds), None, sender)
        return self._only(max(received, key=lambda each: each.round), received) if received else None

    async def latest(self, *kinds: str) -> Received:
        """The message that arrived last (at one instant: of the highest rank) of those here, or else the next; the
        others expire."""
        received = await self._all(self._check_kinds(kinds), None)
        return self._only(received[-1], received)

    def _only(self, chosen: Received, among: list[Received]) -> Received:
        self._account.expired += len(among) - 1
        return self._handed_over([chosen])[0]

    def newest_of_each(self, kind: str, key: Callable[[Received], tuple[int, ...]]) -> list[Received]:
        """Of the messages of a kind that are here, the one of the latest round for each key, by key; others expire.

        Messages of one key and round count by arrival: the last one stays.
        """
        arrived = self.mailbox.take_all(self._check_kinds((kind,)))
        newest: dict[tuple[int, ...], Received] = {}
        for received in arrived:
            place = key(received)
            if place not in newest or received.round >= newest[place].round:
                newest[place] = received
        self._account.expired += len(arrived) - len(newest)
        return self._handed_over([newest[place] for place in sorted(newest)])

    def arrived(self, *kinds: str) -> list[Received]:
        """All messages (of some kinds) that are here, by arrival, then by rank."""
        return self._handed_over(self.mailbox.take_all(self._check_kinds(kinds)))

    def on(self, kind: str, handler: Handler) -> None:
        """Calls `handler(received)` for every message of a kind, those already here included.

        The handler is a plain or an async function. Messages are handled one at a time, by arrival, then by rank, as
        long as `run` goes on. Waits and `arrived` no longer see this kind. An exception in the handler ends the node.
        """
        check_kind(kind)
        if not callable(handler):
            raise TypeError(f"node.on({kind!r}, handler) takes a function of one message, not {handler!r}")
        if kind in self._handlers:
            raise ValueError(f"messages of the kind {kind!r} have a handler already")
        self._handlers[kind] = handler
        self.mailbox.keep_for_handlers(kind)
        if len(self._handlers) == 1:
            self.spawn(self._handle_messages())

    def spawn(self, work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        """Starts work beside `run`. Its failure is the node's; it is cancelled when `run` ends, or the node.

        Raises TypeError for anything but a coroutine.
        """
        return self.background.spawn(work)

    async def _handle_messages(self) -> None:
        while True:
            first = await self.mailbox.for_handlers()
            await self._pause(0.0)  # those of one instant are handled by rank
            for received in sorted([first, *self.mailbox.take_for_handlers()], key=arrival):
                self._handed_over([received])
                working = self._handlers[received.message.kind](received)
                if working is not None:
                    await working

    def _check_kinds(self, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Raises ValueError for kinds that the algorithm cannot wait for."""
        for kind in kinds:
            check_kind(kind)
            if kind in self._handlers:
                raise ValueError(f"messages of the kind {kind!r} have a handler: nothing else can wait for them")
        return kinds

    async def _all(self, kinds: Collection[str], timeout_s: float | None, sender: int | None = None) -> list[Received]:
        first = await self._next(kinds, timeout_s, sender)
        if first is None:
            return []
        await self._pause(0.0)
        return sorted([first, *self.mailbox.take_all(kinds, sender)], key=arrival)

    async def until_gone(self, rank: int) -> None:
        """Waits until another node has finished or left; messages of it stay where they are."""
        while await self._next((NEVER_SENT,), None, rank) is not None:
            pass

    async def _next(
        self, kinds: Collection[str], timeout_s: float | None, sender: int | None = None
    ) -> Received | None:
        wanted = self.mailbox.want(kinds, sender)
        if self._comeback is not None:
            self._comeback.wants(wanted, for_ever=timeout_s is None)
        with self._account.phase(WAIT):
            alarm = None if timeout_s is None else self._clock.call_at(self.now() + timeout_s, wanted.give_up)
            try:
                received = await wanted.future
            finally:
                if alarm is not None:
                    alarm.cancel()
                self.mailbox.done(wanted)
        if received is None and timeout_s is None and sender is None:
            raise ServerDone
        return received

    def _handed_over(self, received: list[Received]) -> list[Received]:
        self._account.mixed(max(0, self.round - each.round) for each in received if each.message.payload)
        return received

    async def patience(self) -> None:
        """Waits for the timeout of silent peers."""
        await self.sleep(self.plan.experiment.missing.after_s)

    async def sleep(self, seconds: float) -> None:
        """Waits for that much emulated time."""
        with self._account.phase(WAIT):
            await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done() -> None:
            if not over.done():
                over.set_result(None)

        alarm = self._clock.call_at(self.now() + seconds, done)
        try:
            await over
        finally:
            alarm.cancel()
