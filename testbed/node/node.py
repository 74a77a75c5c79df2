"""`Node`: the interface between an algorithm and its run.

Takes a `NodePlan` and a world (clock, transport, compute, journal). An algorithm never sees sockets, processes or real
clocks, so the same source runs in virtual time and in containers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

from testbed.journal import Journal
from testbed.node.background import Background
from testbed.node.comeback import Comeback, Memory
from testbed.node.mailbox import AGAIN, GOODBYE, PAST, SENT_AGAIN, Gathering, Mailbox, arrival, check_kind
from testbed.node.messages import Message, Received
from testbed.node.neighbourhood import Neighbourhood
from testbed.node.outbox import Outbox, Policy, Tally, Ticket
from testbed.node.sharing.base import MODEL
from testbed.node.snapshots import Snapshot, save_snapshot
from testbed.node.state import State
from testbed.node.streams import Streams
from testbed.node.world import Clock, Compute, Observer, Pending, Transport, Vector
from testbed.plan.model import NodePlan
from testbed.records import AnyRecord, Count, Evaluation, Event, Phases, Round, Start

_Result = TypeVar("_Result")

STREAMS = "streams"
"""The name of the node's own part in a snapshot's state."""


class PeerMissing(Exception):
    """A peer did not answer in time, and the experiment ends the node in that case."""


class ServerDone(Exception):
    """The server has finished, and this node has missed its last message."""


class _Unwritten(NamedTuple):
    """An evaluation under way, with the time and round of its record."""

    t: float
    round: int
    score: Pending


class _Tab:
    """Counters since the last round's record."""

    def __init__(self, t: float, received: Count, dropped: int) -> None:
        self.t = t
        self.received = received
        self.dropped = dropped
        self.expired = 0
        self.phases = {"train": 0.0, "encode": 0.0, "wait": 0.0, "aggregate": 0.0, "evaluate": 0.0}
        self.losses: list[float] = []
        self.steps = 0
        self.staleness: list[int] = []


class Node:
    """One learner (or server), its model, its peers and its journal."""

    def __init__(
        self,
        plan: NodePlan,
        *,
        clock: Clock,
        transport: Transport,
        compute: Compute,
        journal: Journal,
        observer: Observer,
        snapshot: Snapshot | None = None,
        first_round: int = 0,
        snapshots: Path | None = None,
    ) -> None:
        self.plan = plan
        self.rank = plan.node.rank
        self.name = plan.node.name
        self.learners = plan.learners
        """Ranks of all nodes that learn."""
        self.server = plan.server
        self.snapshot = snapshot
        """The snapshot that a node begins with after a return; None once its algorithm has been made."""
        self.model: Vector = compute.initial() if snapshot is None else snapshot.vector
        self.on_trained: Callable[[Vector], None] | None = None
        """Called with the change of the model by training."""
        self.remembered: Callable[[], Mapping[str, State]] = dict
        """Gives the states to save in snapshots besides the model and the random streams."""
        self.background: Background
        """The tasks beside `run`; set by the node's life, which ends them."""
        self._streams = Streams(plan.seed, plan.node.name)
        self.first_round = first_round
        self.round = first_round
        self.rounds_done = first_round
        self.steps = first_round * (compute.steps_per_round() if plan.node.learner is not None else 0)
        """Local steps since the start of the run, those before a return included."""
        self.first_step = self.steps
        experiment = plan.experiment
        self.mailbox = Mailbox(clock.now, self.model.nbytes)
        self.outbox = Outbox(transport, Policy(experiment.outbox.policy), experiment.outbox.in_flight)
        self._clock = clock
        self._compute = compute
        self._journal = journal
        self._unsaid: list[tuple[str, str]] | None = []
        """Notes from before the record `start`."""
        self._observer = observer
        self._snapshots = snapshots
        self._neighbourhood = Neighbourhood(plan)
        self._evaluations: list[_Unwritten] = []
        self._evaluated_round = -1
        self._given_up: set[tuple[str, int, int]] = set()
        """Messages already counted as expired, in case they still arrive: kind, round, sender."""
        self.mailbox.sift = self._sift
        self.mailbox.on_full = self._no_room
        self._memory = Memory(self.outbox, first_round, serves=self.server == self.rank)
        self._comeback: Comeback | None = None
        self._silent_since: dict[int, float] = {}
        """When a wait for a peer was given up."""
        self._finished: set[int] = set()
        """Peers that have finished: nothing can be sent to them."""
        self._gone: set[int] = set()
        """Those, and peers that have left and not been heard of since."""
        self._finished_peers: frozenset[int] | None = None
        """A copy of these, for the algorithm; None after a change."""
        self._missed: set[int] = set()
        """Finished peers of which a message was awaited in vain."""
        self._told_sent = Tally()
        """What the records of rounds add up to: more than has left, after messages were taken back."""
        self._tab = _Tab(clock.now(), Count(), 0)

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def others(self) -> tuple[int, ...]:
        """Ranks of all other learners."""
        return tuple(rank for rank in self.learners if rank != self.rank)

    @property
    def finished_peers(self) -> frozenset[int]:
        """Ranks of nodes that have finished, or have left and not come back: they neither send nor answer any more.

        All messages that they sent to this node have arrived before.
        """
        if self._finished_peers is None:
            self._finished_peers = frozenset(self._gone)
        return self._finished_peers

    @property
    def samples(self) -> int:
        """The number of the node's training samples."""
        return self._compute.samples

    def now(self) -> float:
        """Emulated seconds since the start."""
        return self._clock.now()

    @property
    def folder(self) -> Path:
        """A folder among the run's results for files of the algorithm, in every runtime."""
        if self._snapshots is None:
            raise RuntimeError("this node is not part of a run, and has no folder")
        return self._snapshots.parent

    def random(self, purpose: str) -> Random:
        """A random stream of this node: the same in every run with the seed, shared with no other node or purpose."""
        return self._streams.of(purpose)

    def restore_streams(self, state: State) -> None:
        """Restores random streams: those requested from now on continue. Raises UnusableState."""
        self._streams.restore(state)

    # -- rounds ----------------------------------------------------------------------------------------------------

    async def rounds(self) -> AsyncIterator[int]:
        """Round numbers until the experiment's end; each round is journalled when the next one is requested."""
        stop = self.plan.experiment.stop.rounds
        number = self.first_round
        while stop is None or number < stop:
            async with self.one_round(number):
                yield number
            number += 1

    @asynccontextmanager
    async def one_round(self, number: int, *, evaluate: bool = True) -> AsyncIterator[None]:
        """One round, for an algorithm that numbers its rounds itself."""
        self.round = number
        yield
        await self._close_round(number, evaluate=evaluate)

    async def _close_round(self, number: int, *, evaluate: bool) -> None:
        settings = self.plan.experiment.evaluation
        last = self.plan.experiment.stop.rounds is not None and number + 1 >= self.plan.experiment.stop.rounds
        judged = self.server in (None, self.rank)  # where there is a server, its model is what counts
        due = evaluate and judged and settings.mode != "none" and ((number + 1) % settings.every == 0 or last)
        inline = None
        if due and settings.mode == "inline":
            with self._phase("evaluate"):
                inline = await self._compute.evaluate_inline(self.model)
        self.rounds_done = number + 1
        tab = self._tab
        sent, received = self.outbox.sent.since(self._told_sent.count()), self.mailbox.received.since(tab.received)
        self._told_sent.add(sent)
        self.record(
            Round(
                t=self.now(),
                round=number,
                loss=sum(tab.losses) / len(tab.losses) if tab.losses else None,
                phases=Phases(**tab.phases),
                sent=sent,
                received=received,
                steps=tab.steps,
                aggregated=len(tab.staleness),
                dropped=self.outbox.dropped - tab.dropped,
                expired=tab.expired,
                staleness_mean=sum(tab.staleness) / len(tab.staleness) if tab.staleness else 0.0,
                staleness_max=max(tab.staleness, default=0),
            )
        )
        self._tab = _Tab(self.now(), self.mailbox.received.count(), self.outbox.dropped)
        if inline is not None:
            self._evaluated_round = number
            self.record(
                Evaluation(self.now(), number, inline.accuracy, inline.loss, inline.samples, self._compute.tested_on)
            )
            self._observer.model(self.rank, number, self.model.copy())
        elif due:
            self.evaluate_after()
        experiment = self.plan.experiment
        every = experiment.snapshots.every or (1 if experiment.rejoin == "last" else 0)
        if self._snapshots is not None and every and (number + 1) % every == 0:
            save_snapshot(
                self._snapshots, number + 1, self.model, {STREAMS: self._streams.state(), **self.remembered()}
            )

    def evaluate_after(self) -> None:
        """Evaluates the current model, outside emulated time; at most once a round."""
        number = self.rounds_done - 1
        if self.server not in (None, self.rank) or number < self.first_round:
            return
        if self._evaluated_round >= number or self.plan.experiment.evaluation.mode == "none":
            return
        self._evaluated_round = number
        vector = self.model.copy()
        self._evaluations.append(_Unwritten(self.now(), number, self._compute.evaluate(vector)))
        self._observer.model(self.rank, number, vector)

    # -- learning --------------------------------------------------------------------------------------------------

    async def train(self, steps: int | None = None) -> float:
        """Does the round's local steps (or `steps`) and gives their mean loss. The model changes once, at their end."""
        count = self._compute.steps_per_round() if steps is None else steps
        with self._phase("train"):
            trained = await self._compute.train(self.model, self.steps, count)
        if self.on_trained is not None:
            self.on_trained(trained.after - trained.before)
        self._trained(trained.loss, count)
        return trained.loss

    async def gradient(self) -> Vector:
        """The gradient of one minibatch at the current model."""
        with self._phase("train"):
            loss, gradient = await self._compute.gradient(self.model, self.steps)
        self._trained(loss, 1)
        return gradient

    def _trained(self, loss: float, steps: int) -> None:
        self.steps += steps
        self._tab.steps += steps
        self._tab.losses.append(loss)

    def spawn(self, work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        """Starts work beside `run`. Its failure is the node's; it is cancelled when `run` ends, or the node.

        Raises TypeError for anything but a coroutine.
        """
        return self.background.spawn(work)

    # -- talking ---------------------------------------------------------------------------------------------------

    async def neighbours(self, round_: int) -> tuple[int, ...]:
        """Ranks of this node's neighbours in a round, by the experiment's overlay."""
        with self._phase("wait"):
            return await self._neighbourhood.of(self, round_)

    async def send(self, to: int | Iterable[int], message: Message) -> list[Ticket]:
        """Puts a message into the outbox for each recipient, without waiting until it leaves (`Ticket.settled`)."""
        check_kind(message.kind)
        recipients = [to] if isinstance(to, int) else list(to)
        if message.payload:
            message = message.with_fields(degree=len(recipients))
        self._memory.sent(recipients, message)
        return self._post(recipients, message)

    def _post(self, recipients: list[int], message: Message) -> list[Ticket]:
        tickets = []
        for rank in recipients:
            if not 0 <= rank < len(self.plan.ranks):
                raise ValueError(f"there is no rank {rank}: the nodes have 0 to {len(self.plan.ranks) - 1}")
            if message.payload and self._is_silent(rank):
                self.outbox.forget_models([rank])  # it gets the newest when it is back, not all that it missed
            if rank == self.rank:
                self.mailbox.put(rank, message, counted=False)
            else:
                tickets.append(self.outbox.post(rank, message))
        if self._finished:
            self.outbox.cut(self._finished.intersection(recipients))
        return tickets

    def others_finished(self, ranks: Collection[int]) -> None:
        """These nodes have finished: all that they sent is here, and nothing can be sent to them any more."""
        self._finished.update(ranks)
        self.outbox.cut(ranks)
        if self._comeback is not None:
            self._comeback.finished(self._finished)
        self._are_gone(ranks)

    def others_live_again(self, ranks: Collection[int]) -> None:
        """These nodes, which had finished, have begun another life."""
        self._finished.difference_update(ranks)
        self._missed.difference_update(ranks)
        self._gone.difference_update(ranks)
        self._finished_peers = None

    def _are_gone(self, ranks: Iterable[int]) -> None:
        """Ends waits for peers that send nothing any more."""
        self._gone.update(ranks)
        self._finished_peers = None
        for gathering in self.mailbox.awaited():
            self._miss_finished(gathering)
        self.mailbox.finished(self._gone)

    def _miss_finished(self, gathering: Gathering) -> None:
        """Does at once, for finished peers, what the experiment says about silent ones."""
        finished = gathering.missing & self._finished
        can_come = len(gathering.found) + len(gathering.missing) - len(finished)
        if gathering.future.done() or not finished:
            return
        then = self.plan.experiment.missing.then
        unsaid = finished - self._missed
        if unsaid and can_come < gathering.enough:
            self._missed.update(unsaid)
            self.note("peer-missing", f"round {gathering.round}: {self._names(unsaid)}: {then}")
        if then == "skip":
            for sender in sorted(finished):
                self._leave_out(gathering, sender)
        elif then == "abort" and can_come < gathering.enough:
            gathering.silent = True
            gathering.missing = finished
            gathering.give_up()

    async def finish_sending(self) -> None:
        """Waits until all messages have left. Those that do not within the timeout for silent peers are given up."""
        if self._comeback is not None:
            self._comeback.is_over()
        patience_s = self.plan.experiment.missing.after_s
        silent = [rank for rank in sorted(self._silent_since) if self._is_silent(rank)]
        if given_up := self.outbox.forget_models(silent, moving=True):
            self.note("sends-given-up", f"to {self._names(given_up)}")
        while not self.outbox.is_empty:
            left = self.outbox.left
            alarm = self._clock.call_at(self.now() + patience_s, self.outbox.wake)
            try:
                await self.outbox.drained()
            finally:
                alarm.cancel()
            if self.outbox.left == left and not self.outbox.is_empty:
                self.note("sends-given-up", f"to {self._names(self.outbox.cut())}")

    async def gather(
        self,
        senders: Iterable[int],
        round_: int,
        kind: str = MODEL,
        *,
        enough: int | None = None,
        within_s: float | None = None,
    ) -> list[Received]:
        """One message of the round from each sender (or from the first `enough`, or from those in time), by rank.

        Messages of later rounds are kept, those of earlier rounds expire. The experiment says what happens if a sender
        is silent for too long: the node waits on, leaves the sender out until it sends again, or ends.
        """
        self.expire(kind, round_)
        awaited, silent = self._apart(senders)
        self._give_up(kind, round_, silent)
        gathering = self.mailbox.gather(kind, round_, awaited, enough)
        comeback = self._comeback if kind == MODEL else None
        if comeback is not None:
            comeback.begins(gathering)
        self._miss_finished(gathering)
        missing = self.plan.experiment.missing
        began = self.now()
        with self._phase("wait"):
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
        self._tab.expired += len(gathering.found) - len(received)
        return self._handed_over(received)

    def _silent(self, gathering: Gathering, since: float) -> None:
        if gathering.future.done():
            return
        then = self.plan.experiment.missing.then
        self.note("peer-missing", f"round {gathering.round}: {self._names(gathering.missing)}: {then}")
        if then != "wait":
            gathering.silent = True
            unheard = [sender for sender in gathering.missing if self.mailbox.heard.get(sender, -1.0) < since]
            self._silent_since.update(dict.fromkeys(unheard, self.now()))
            self._give_up(gathering.kind, gathering.round, gathering.missing)
            gathering.give_up()

    def _apart(self, senders: Iterable[int]) -> tuple[list[int], list[int]]:
        """Senders to wait for, and those given up before and silent since: a dead peer costs its timeout once."""
        awaited: list[int] = []
        silent: list[int] = []
        for sender in senders:
            (silent if self._is_silent(sender) else awaited).append(sender)
        return awaited, silent

    def _is_silent(self, rank: int) -> bool:
        return rank in self._silent_since and self.mailbox.heard.get(rank, -1.0) <= self._silent_since[rank]

    def come_back(self) -> None:
        """Marks a node that came back: it asks for models that were sent before and are lost."""
        server = None if self.server == self.rank else self.server
        self._comeback = Comeback(self.mailbox, self.outbox, server, self._leave_out)

    @property
    def came_back(self) -> bool:
        return self._comeback is not None

    def _sift(self, sender: int, message: Message) -> Message | None:
        """The part of a message that is for the algorithm; None if there is none."""
        if sender in self._gone and sender not in self._finished and message.kind != GOODBYE:
            self.others_live_again([sender])  # it had left
        if message.payload:
            self._memory.answered(sender)
        if message.kind == GOODBYE:
            self._goodbye(sender)
        elif message.kind == AGAIN:
            self._memory.answer(sender, message.round)
        elif self._comeback is not None:
            return self._comeback.sift(sender, message)
        elif message.kind not in (PAST, SENT_AGAIN):  # this node has not asked for those
            return message
        return None

    def say_goodbye(self) -> None:
        """Tells all nodes that this one sends nothing any more, so that none of them waits."""
        self._post([rank for rank in range(len(self.plan.ranks)) if rank != self.rank], Message(GOODBYE, self.round))

    def _goodbye(self, sender: int) -> None:
        """A node that has left is not waited for, and nothing is sent to it."""
        self._silent_since[sender] = self.now()
        self.outbox.cut([sender])
        for gathering in self.mailbox.gatherings():
            if sender in gathering.missing:
                self._leave_out(gathering, sender)
        self._are_gone([sender])

    def _leave_out(self, gathering: Gathering, sender: int) -> None:
        self._give_up(gathering.kind, gathering.round, [sender])
        gathering.leave_out(sender)

    def _no_room(self, sender: int, dropped: int) -> None:
        self.note("mailbox-full", f"from {self._names([sender])}: {dropped} dropped so far")

    def _give_up(self, kind: str, round_: int, senders: Collection[int]) -> None:
        self._tab.expired += len(senders)
        self._given_up.update((kind, round_, sender) for sender in senders)

    def expire(self, kind: str, round_: int) -> None:
        """Drops messages of a kind that are older than a round; each counts as expired, once."""
        for old in self.mailbox.discard_before(kind, round_):
            place = (kind, old.round, old.sender)
            if place in self._given_up:
                self._given_up.remove(place)
            else:
                self._tab.expired += 1

    async def receive(self, *kinds: str, timeout_s: float | None = None) -> Received | None:
        """The next message of some kinds (default: models), in the order of arrival; None after the timeout.

        Which one is first of those that arrive at one instant is chance: `receive_all` sorts them.
        """
        received = await self._next(kinds or (MODEL,), timeout_s)
        return None if received is None else self._handed_over([received])[0]

    async def receive_all(self, *kinds: str, timeout_s: float | None = None) -> list[Received]:
        """All messages of some kinds that are here, or else the next; by arrival, then rank. Empty after the
        timeout."""
        return self._handed_over(await self._all(kinds or (MODEL,), timeout_s))

    async def newest(self, *kinds: str) -> Received:
        """The message of the latest round among those that are here, or else the next; the others expire."""
        received = await self._all(kinds or (MODEL,), None)
        self._tab.expired += len(received) - 1
        return self._handed_over([max(received, key=lambda each: each.round)])[0]

    async def _all(self, kinds: Collection[str], timeout_s: float | None) -> list[Received]:
        first = await self._next(kinds, timeout_s)
        if first is None:
            return []
        await self._pause(0.0)
        return sorted([first, *self.mailbox.take_all(kinds)], key=arrival)

    async def _next(self, kinds: Collection[str], timeout_s: float | None) -> Received | None:
        wanted = self.mailbox.want(kinds)
        if self._comeback is not None:
            self._comeback.wants(wanted, for_ever=timeout_s is None)
        with self._phase("wait"):
            alarm = None if timeout_s is None else self._clock.call_at(self.now() + timeout_s, wanted.give_up)
            try:
                received = await wanted.future
            finally:
                if alarm is not None:
                    alarm.cancel()
                self.mailbox.done(wanted)
        if received is None and timeout_s is None:
            raise ServerDone
        return received

    def arrived(self, *kinds: str) -> list[Received]:
        """All messages of some kinds (default: models) that are here, by arrival, then by rank."""
        return self._handed_over(self.mailbox.take_all(kinds or (MODEL,)))

    def _handed_over(self, received: list[Received]) -> list[Received]:
        self._tab.staleness.extend(max(0, self.round - each.round) for each in received if each.message.payload)
        return received

    def _names(self, ranks: Collection[int]) -> str:
        return ", ".join(self.plan.ranks[rank] for rank in sorted(ranks))

    async def patience(self) -> None:
        """Waits for the timeout of silent peers."""
        await self.sleep(self.plan.experiment.missing.after_s)

    async def sleep(self, seconds: float) -> None:
        """Waits for that much emulated time."""
        with self._phase("wait"):
            await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        over = self.mailbox.want(())
        self._clock.call_at(self.now() + seconds, over.give_up)
        try:
            await over.future
        finally:
            self.mailbox.done(over)

    # -- the journal -----------------------------------------------------------------------------------------------

    def begin(self, first: Start) -> None:
        """Writes the journal's first record, then the notes from before it."""
        self._write(first)
        unsaid, self._unsaid = self._unsaid, None
        for what, detail in unsaid or ():
            self.note(what, detail)

    def note(self, what: str, detail: str = "") -> None:
        """Writes an event to the journal; raises TypeError unless both are text."""
        if not isinstance(what, str) or not isinstance(detail, str):
            raise TypeError("node.note(what, detail) takes two texts: json.dumps(...) or str(...) makes one of values")
        if self._unsaid is None:
            self.record(Event(self.now(), what, detail))
        else:
            self._unsaid.append((what, detail))

    def record(self, record: AnyRecord) -> None:
        """Writes a record, after those evaluations before it that are done."""
        self.settle_evaluations(wait=False)
        self._write(record)

    def close_with(self, record: AnyRecord) -> None:
        """Writes the last record and drops evaluations under way; nothing is sent any more."""
        self._memory.is_closed = True
        self._evaluations.clear()
        self._write(record)

    async def all_evaluated(self) -> None:
        """Waits until `settle_evaluations` need not."""
        for each in list(self._evaluations):
            await each.score.ended()

    def settle_evaluations(self, *, wait: bool = True) -> None:
        """Writes the evaluations under way, in their order; without `wait` up to the first that is not done."""
        while self._evaluations and (wait or self._evaluations[0].score.is_done):
            each = self._evaluations.pop(0)
            try:
                score = each.score.result()
            except BaseException:
                self._evaluations.clear()  # later models would fail, too
                raise
            self._write(
                Evaluation(each.t, each.round, score.accuracy, score.loss, score.samples, self._compute.tested_on)
            )

    def _write(self, record: AnyRecord) -> None:
        self._journal.write(record)
        self._observer.recorded(self.rank, record)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = self.now()
        try:
            yield
        finally:
            self._tab.phases[name] += self.now() - began
