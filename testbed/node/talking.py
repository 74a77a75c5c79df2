"""A node's messages: what it sends, what it waits for, and the peers that are silent, finished or gone.

Takes messages from the algorithm and from the transport; touches neither sockets nor clocks of its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterable
from operator import index
from typing import Any, TypeVar

from testbed.journal import Journal
from testbed.node.background import Background
from testbed.node.comeback import Comeback, Memory
from testbed.node.expected_traffic import largest_message_bytes
from testbed.node.finished import FinishedPeers
from testbed.node.kinds import AGAIN, ANSWERS, GOODBYE, MODEL, PAST, REPEATED, RESERVED, check_kind
from testbed.node.mailbox import Gathering, Mailbox, arrival
from testbed.node.messages import Message, Received
from testbed.node.outbox import Outbox, Policy
from testbed.node.recording import RecordingNode
from testbed.node.round_account import WAIT
from testbed.node.sealing import sealed
from testbed.node.silence import SilentPeers
from testbed.node.tickets import Ticket, TicketState
from testbed.node.world import Clock, Observer, Transport
from testbed.plan.model import NodePlan
from testbed.plan.outbox import outbox_of

_Result = TypeVar("_Result")
Handler = Callable[[Received], Awaitable[object] | None]


class PeerMissing(Exception):
    """A peer did not answer in time, and the experiment ends the node in that case."""


class ServerDone(Exception):
    """The server has finished, and this node has missed its last message."""


class Tickets(list[Ticket]):
    """The tickets of one `send`, in the order of its recipients. Awaiting it gives it at once."""

    def __await__(self) -> Generator[None, None, Tickets]:
        yield from ()
        return self


class TalkingNode(RecordingNode):
    """The part of a node that sends and receives."""

    def __init__(
        self,
        plan: NodePlan,
        *,
        clock: Clock,
        transport: Transport,
        journal: Journal,
        observer: Observer,
        tested_on: str,
        model_bytes: int,
        first_round: int,
    ) -> None:
        super().__init__(plan.node.rank, clock, journal, observer, tested_on)
        self.plan = plan
        """All that this node is told of the run: `plan.ranks` has the names of all nodes."""
        self.server = plan.server
        """The rank of the node that serves instead of learning, if there is one."""
        self.round = first_round
        """The round that goes on."""
        self.mailbox = Mailbox(clock.now, model_bytes)
        self.mailbox.sift = self._sift
        self.mailbox.on_full = self._no_room
        missing, outbox = plan.experiment.missing, outbox_of(plan.experiment)
        self._silent_peers = SilentPeers(clock, self.mailbox.heard, missing.after_s, gives_up=missing.then != "wait")
        self.outbox = Outbox(transport, Policy(outbox.policy), outbox.in_flight, self._silent_peers)
        self.outbox.on_given_up = lambda rank: self.note("sends-given-up", f"to {self._names([rank])}")
        self._largest_message = largest_message_bytes(plan.experiment, model_bytes // 4)
        self._memory = Memory(self.outbox, first_round, serves=self.server == self.rank)
        self._comeback: Comeback | None = None
        self._given_up: Counter[tuple[str, int, int]] = Counter()
        """How many messages have been counted as expired, in case they still arrive: by kind, round, sender."""
        self._finished_peers = FinishedPeers()
        self._handlers: dict[str, Handler] = {}
        self.background: Background
        """The tasks beside `run`; set by the node's life, which ends them."""

    # -- sending ---------------------------------------------------------------------------------------------------

    def send(self, to: int | Iterable[int], message: Message) -> Tickets:
        """Puts a message into the outbox for each recipient, and gives their tickets, without waiting for anything.

        What arrives is what was there at this call. `await node.send(...)` does the same.
        """
        recipients = [index(each) for each in to] if isinstance(to, Iterable) else [index(to)]
        message = sealed(message, len(recipients), self._largest_message)
        check_kind(message.kind)
        self._memory.sent(recipients, message)
        return self.post(recipients, message)

    def post(self, recipients: Collection[int], message: Message) -> Tickets:
        """Sends a message of any kind, also of those that nodes use among themselves."""
        tickets = Tickets()
        for rank in recipients:
            if not 0 <= rank < len(self.plan.ranks):
                raise ValueError(f"there is no rank {rank}: the nodes have 0 to {len(self.plan.ranks) - 1}")
            if rank == self.rank:
                self.mailbox.put(rank, message.delivered(), counted=False)
                tickets.append(Ticket(rank, message, 0))
                tickets[-1].settle(TicketState.LEFT)
            else:
                tickets.append(self.outbox.post(rank, message))
        if self._finished_peers.finished:
            self.outbox.cut(self._finished_peers.finished.intersection(recipients))
        return tickets

    def flush(self) -> list[Ticket]:
        """Withdraws all messages with a payload whose sending has not started; gives their tickets."""
        return self.outbox.flush(kept=RESERVED)

    def withdraw(self, tickets: Iterable[Ticket]) -> None:
        """Withdraws these messages. One that is under way is cut; those that have left arrive."""
        self.outbox.withdraw(tickets)

    async def finish_sending(self) -> None:
        """Waits until all messages have left. Those of which peers take nothing for the timeout are given up."""
        if self._comeback is not None:
            self._comeback.is_over()
        self.outbox.finish()
        await self.outbox.drained()

    # -- waiting for messages --------------------------------------------------------------------------------------

    async def gather(
        self,
        senders: Iterable[int],
        round_: int,
        kind: str = MODEL,
        *,
        enough: int | None = None,
        within_s: float | None = None,
        part: int | None = None,
    ) -> list[Received]:
        """One message of the round from each sender (or from the first `enough`, or from those in time), by rank.

        With `part`, one whose field `part` is that number: a sender may send several parts of a model in a round.

        Messages of later rounds are kept, those of earlier rounds expire. The experiment says what happens if a sender
        is silent for too long: the node waits on, leaves the sender out until it sends again, or ends.
        """
        self._check_kinds((kind,))
        return await self.gather_any_kind(senders, round_, kind, enough=enough, within_s=within_s, part=part)

    async def gather_any_kind(
        self,
        senders: Iterable[int],
        round_: int,
        kind: str,
        *,
        enough: int | None = None,
        within_s: float | None = None,
        part: int | None = None,
    ) -> list[Received]:
        """`gather`, also of kinds that nodes use among themselves."""
        self.expire(kind, round_)
        awaited, silent = self._apart(senders)
        self._give_up(kind, round_, silent)
        gathering = self.mailbox.gather(kind, round_, awaited, enough, part)
        comeback = self._comeback if kind in REPEATED else None
        if comeback is not None:
            comeback.begins(gathering)
        self._miss_finished(gathering)
        missing = self.plan.experiment.missing
        began = self.now()
        with self._account.phase(WAIT):
            alarms = [self._clock.call_at(self.now() + missing.after_s, lambda: self._silent(gathering, began))]
            if within_s is not None:
                alarms.append(self._clock.call_at(self.now() + within_s, gathering.give_up))
            try:
                await gathering.future
                if enough is not None:
                    # Others may arrive at this very instant, and ranks decide who was first.
                    await self._pause(0.0)
            finally:
                for alarm in alarms:
                    alarm.cancel()
                self.mailbox.done(gathering)
        if comeback is not None:
            comeback.ends(gathering)
        if gathering.silent and missing.then == "abort":
            raise PeerMissing(f"{self._names(gathering.missing)} sent nothing for round {round_}")
        received = gathering.by_rank()
        self._account.expired += len(gathering.found) - len(received)
        return self._handed_over(received)

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
        return self._handed_over(await self._all(self._check_kinds(kinds), timeout_s))

    async def newest(self, *kinds: str) -> Received:
        """The message of the latest round among those that are here, or else the next; the others expire."""
        received = await self._all(self._check_kinds(kinds), None)
        return self._only(max(received, key=lambda each: each.round), received)

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

    async def _all(self, kinds: Collection[str], timeout_s: float | None) -> list[Received]:
        first = await self._next(kinds, timeout_s)
        if first is None:
            return []
        await self._pause(0.0)
        return sorted([first, *self.mailbox.take_all(kinds)], key=arrival)

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

    # -- peers that are silent, finished or gone -------------------------------------------------------------------

    @property
    def finished_peers(self) -> frozenset[int]:
        """Ranks of nodes that have finished, or have left and not come back: they neither send nor answer any more.

        All messages that they sent to this node have arrived before.
        """
        return self._finished_peers.ranks

    def others_finished(self, ranks: Collection[int]) -> None:
        """These nodes have finished: all that they sent is here, and nothing can be sent to them any more."""
        self._finished_peers.finish(ranks)
        self.outbox.cut(ranks)
        if self._comeback is not None:
            self._comeback.finished(self._finished_peers.finished)
        for gathering in self.mailbox.awaited():
            self._miss_finished(gathering)
        self.mailbox.finished(self._finished_peers.gone)

    def others_live_again(self, ranks: Collection[int]) -> None:
        """These nodes, which had finished, have begun another life."""
        self._finished_peers.live_again(ranks)

    def come_back(self) -> None:
        """Marks a node that came back: it asks for models that were sent before and are lost."""
        server = None if self.server == self.rank else self.server
        self._comeback = Comeback(self.mailbox, self.outbox, server, self._leave_out)

    @property
    def came_back(self) -> bool:
        return self._comeback is not None

    def stop_answering(self) -> None:
        """Nothing is sent any more, not even answers to nodes that came back."""
        self._memory.is_closed = True

    def say_goodbye(self) -> None:
        """Tells all nodes that this one sends nothing any more, so that none of them waits."""
        self.post([rank for rank in range(len(self.plan.ranks)) if rank != self.rank], Message(GOODBYE, self.round))

    def expire(self, kind: str, round_: int) -> None:
        """Drops messages of a kind that are older than a round; each counts as expired, once."""
        for old in self.mailbox.discard_before(kind, round_):
            place = (kind, old.round, old.sender)
            if self._given_up[place]:
                self._given_up[place] -= 1
            else:
                self._account.expired += 1

    def _silent(self, gathering: Gathering, since: float) -> None:
        if gathering.future.done():
            return
        then = self.plan.experiment.missing.then
        self.note("peer-missing", f"round {gathering.round}: {self._names(gathering.missing)}: {then}")
        if then != "wait":
            gathering.silent = True
            for sender in gathering.missing:
                if self.mailbox.heard.get(sender, -1.0) < since:
                    self._silent_peers.sends_nothing(sender)
            self.outbox.start_waiting()
            self._give_up(gathering.kind, gathering.round, gathering.missing)
            gathering.give_up()

    def _miss_finished(self, gathering: Gathering) -> None:
        """Does at once, for finished peers, what the experiment says about silent ones."""
        finished = gathering.missing & self._finished_peers.finished
        if gathering.future.done() or not finished:
            return
        then = self.plan.experiment.missing.then
        is_in_vain = len(gathering.found) + len(gathering.missing) - len(finished) < gathering.enough
        if is_in_vain and (unsaid := self._finished_peers.first_missed(finished)):
            self.note("peer-missing", f"round {gathering.round}: {self._names(unsaid)}: {then}")
        if then == "skip":
            for sender in sorted(finished):
                self._leave_out(gathering, sender)
        elif then == "abort" and is_in_vain:
            gathering.silent = True
            gathering.missing = finished
            gathering.give_up()

    def _apart(self, senders: Iterable[int]) -> tuple[list[int], list[int]]:
        """Senders to wait for, and those given up before and silent since: a dead peer costs its timeout once."""
        awaited: list[int] = []
        silent: list[int] = []
        for sender in senders:
            (silent if sender in self._silent_peers else awaited).append(sender)
        return awaited, silent

    def _sift(self, sender: int, message: Message) -> Message | None:
        """The part of a message that is for the algorithm; None if there is none."""
        if message.kind != GOODBYE:
            self._finished_peers.heard(sender)
        if message.payload:
            self._memory.answered(sender)
        if message.kind == GOODBYE:
            self._goodbye(sender)
        elif message.kind == AGAIN:
            self._memory.answer(sender, message.round)
        elif self._comeback is not None:
            return self._comeback.sift(sender, message)
        elif message.kind != PAST and message.kind not in ANSWERS:  # this node has not asked for those
            return message
        return None

    def _goodbye(self, sender: int) -> None:
        """A node that has left is not waited for, and nothing is sent to it."""
        self._silent_peers.sends_nothing(sender)
        self.outbox.cut([sender])
        for gathering in self.mailbox.gatherings():
            if sender in gathering.missing:
                self._leave_out(gathering, sender)
        self._finished_peers.leave(sender)
        self.mailbox.finished(self._finished_peers.gone)

    def _leave_out(self, gathering: Gathering, sender: int) -> None:
        self._give_up(gathering.kind, gathering.round, [sender])
        gathering.leave_out(sender)

    def _no_room(self, sender: int, dropped: int) -> None:
        self.note("mailbox-full", f"from {self._names([sender])}: {dropped} dropped so far")

    def _give_up(self, kind: str, round_: int, senders: Collection[int]) -> None:
        self._account.expired += len(senders)
        self._given_up.update((kind, round_, sender) for sender in senders)

    def _names(self, ranks: Collection[int]) -> str:
        return ", ".join(self.plan.ranks[rank] for rank in sorted(ranks))
