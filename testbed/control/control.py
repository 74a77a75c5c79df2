"""Control: start barrier, liveness, progress, stop rules.

Takes what nodes report, tells them when to begin and to end; touches its socket and control's log. How nodes are
started, and what the topology's events do to them, is the runtime's affair.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from testbed.control.allowance import RATE_PER_S, Allowance
from testbed.control.averages import Averages
from testbed.control.log import ControlLog
from testbed.control.outcome import NodeFailure, Outcome
from testbed.control.packets import Entrance, PacketLink
from testbed.control.progress import Progress, Tell, Watch
from testbed.control.silence import Silence
from testbed.control.strangers import Strangers
from testbed.errors import PreflightRefused
from testbed.journal import CannotWrite
from testbed.plan.model import RunPlan
from testbed.protocol.message import Message, ProtocolError
from testbed.protocol.nodes import (
    FROM_NODE,
    Finished,
    Go,
    Halt,
    Hello,
    Idle,
    Left,
    Overrun,
    Quiet,
    Ready,
    Recorded,
    Stood,
    Unable,
)
from testbed.protocol.zygote import Discard, Judge, Judged
from testbed.records import AnyRecord, End, Evaluation, Event, Failure, Over, Start

_RECORDS = msgspec.json.Decoder(AnyRecord)
_TELL_EVERY_S = 0.2
_LEAD_S = 0.3
"""From telling everybody to begin until the beginning: all have heard by then."""
_JUDGING_S = 20.0
"""How long the run's end may wait for averages of models that are still to be tried."""
_LEFT = "left"
_DONE = "finished"
_INTERRUPTED = "interrupted"
_IN_GOOD_ORDER = ("time", "accuracy")
_MOST_MISUNDERSTOOD = 100
"""Messages of one node that are no messages; then it is not listened to any more."""
_SAME_HAND_S = 10.0
"""Who ends all processes of a run, such as Compose, ends control at most so much later than the first node: after as
long Docker kills what it has asked to end."""


class _Member:
    """A node whose process was started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.link: PacketLink | None = None
        self.is_ready = False
        self.has_begun = False
        self.is_idle = False
        self.end: End | None = None
        self.is_wanted_dead = False
        """Its death is no failure: the topology's events, or the end of the run, want it."""
        self.halted: str | None = None
        """Why it was told to end, though it may not have called yet."""
        self.why: Unable | None = None
        """What it said before it gave up."""
        self.misunderstood = 0
        self.heard_s = time.monotonic()
        """When it said something last."""


class Control:
    """One run's control, in one asyncio loop."""

    def __init__(
        self,
        plan: RunPlan,
        log: ControlLog,
        *,
        tell: Tell | None = None,
        judge: Callable[[Judge | Discard], None] = lambda _: None,
    ) -> None:
        """`judge` has averages of models tried; what comes of it goes to `judged`."""
        stop = plan.experiment.stop
        self._plan = plan
        self._log = log
        self._tell = tell
        self._told_at = 0.0
        self._names = [node.name for node in plan.nodes]
        self._scale = plan.time_scale
        self._watch = Watch(plan.learners, stop.rounds, stop.time_s)
        self._averages = Averages(log, judge)
        self._stayed: set[int] = set()
        """Learners that have ended in good order, without leaving."""
        self._members: dict[int, _Member] = {}
        self._coming: set[int] = set()
        self._strangers = Strangers()
        self._failures: list[NodeFailure] = []
        self._broken: list[str] = []
        self._refusal: PreflightRefused | None = None
        self._is_unwritten = False
        """Control's log has no room: whatever happens from then on, nobody can look up."""
        self._finished: set[int] = set()
        self._doomed: set[int] = set()
        """Those that something broken has ended: they cannot have finished."""
        self._unasked: dict[int, asyncio.TimerHandle] = {}
        """Nodes that have left though nobody had told them to: if the run is not interrupted at once, they failed."""
        self._gone: set[int] = set()
        """Nodes that had done their work, and whose processes are over."""
        self._is_gone_told = True
        self.silence = Silence()
        self._overruns: dict[tuple[int, int], Overrun] = {}
        """What each node has said last in each of its lives: rank and process id."""
        self._reason = "finished"
        self._stopped_at: float | None = None
        self._is_hurried = False
        self._changed = asyncio.Event()
        self._begun_at: float | None = None
        self._entrances: list[Entrance] = []

    # -- the runtime's side ----------------------------------------------------------------------------------------

    def listen(self, path: Path) -> None:
        """From now on nodes can report; who it is, the kernel says."""
        self._entrances = [Entrance(path, self._welcome)]

    def listen_at(self, paths: Iterable[Path]) -> None:
        """From now on nodes can report, each at a socket that only it can reach; by rank."""
        for rank, path in enumerate(paths):
            self._entrances.append(Entrance(path, partial(self._welcome_at, rank)))

    def expect(self, rank: int) -> None:
        """A node will be started: the run is not over before it has lived."""
        self._coming.add(rank)
        self._finished.discard(rank)
        self._averages.lives_again(rank)

    def started(self, rank: int, pid: int) -> None:
        """A node's process was made: it will say hello, or has."""
        self._coming.discard(rank)
        if (doubt := self._unasked.pop(rank, None)) is not None:
            doubt.cancel()
        if rank in self._gone:
            self._gone.discard(rank)
            self._tell_who_is_gone()
        member = self._members[rank] = _Member(pid)
        self._note(Event(self.now(), "joined", node=self._names[rank]))
        member.is_wanted_dead = self.is_ending
        if (connection := self._strangers.take(pid)) is not None:
            self._listen_to(rank, member, connection)

    def expect_nobody(self) -> None:
        """Whoever has not come by now never will."""
        if self._coming:
            self._coming.clear()
            self._changed.set()

    async def all_ready(self, ranks: Collection[int]) -> bool:
        """Wait until these nodes are; False when the run is over before."""
        while self.not_ready(ranks):
            if self.is_ending:
                return False
            await self._something()
        return not self.is_ending

    def not_ready(self, ranks: Collection[int]) -> list[int]:
        """Those of them that have not come, or have not said that they are."""
        return [rank for rank in ranks if rank not in self._members or not self._members[rank].is_ready]

    def never_begin(self, ranks: Collection[int], words: str) -> None:
        """Nobody waits for these nodes any more: the run fails."""
        for rank in ranks:
            self._fail(rank, Failure(words))

    def give_up(self, rank: int, words: str) -> None:
        """The run fails for this node, which is about to be killed."""
        if rank in self._members:
            self._members[rank].is_wanted_dead = True
            self._fail(rank, Failure(words))

    def begin(self) -> float:
        """Everybody begins at the same moment of CLOCK_MONOTONIC, which it gives."""
        self._begun_at = time.monotonic() + _LEAD_S
        for member in self._members.values():
            self._send(member, Go(self._begun_at))
        stop = self._plan.experiment.stop
        if stop.time_s is not None:
            lasts_s = stop.time_s * self._scale
            asyncio.get_running_loop().call_later(lasts_s + _LEAD_S, lambda: self.stop("time", "stopped"))
        return self._begun_at

    def now(self) -> float:
        """Emulated seconds; 0 before the beginning."""
        return self.at(time.monotonic())

    def at(self, monotonic_s: float) -> float:
        """The emulated time of a moment of CLOCK_MONOTONIC."""
        return 0.0 if self._begun_at is None else max(0.0, monotonic_s - self._begun_at) / self._scale

    def wants_dead(self, rank: int) -> None:
        """The node's end is planned, however it comes about."""
        if rank in self._members:
            self._members[rank].is_wanted_dead = True

    def halt(self, rank: int, reason: str) -> None:
        """One node ends in good order."""
        if (member := self._members.get(rank)) is not None:
            member.halted = reason
            self._send(member, Halt(reason))

    def stood(self, rank: int, since_s: float) -> None:
        """A node that was stopped on purpose since then, by CLOCK_MONOTONIC, is about to go on: it must know why."""
        if rank in self._members:
            self._send(self._members[rank], Stood(since_s, time.monotonic()))

    def stop(self, reason: str, as_: str) -> None:
        """Everybody ends; the first reason stays, unless somebody does not want to wait for the last of the work."""
        if not self.is_ending or (reason == _INTERRUPTED and self._reason in _IN_GOOD_ORDER):
            self._reason = reason
            self._stopped_at = time.monotonic()
            self._is_hurried = reason not in _IN_GOOD_ORDER
        if reason == "interrupted":
            self._averages.give_up()
            for doubt in self._unasked.values():  # whoever ends the run has ended them, too
                doubt.cancel()
            self._unasked.clear()
        for member in self._members.values():
            if member.end is None:
                member.is_wanted_dead = member.is_wanted_dead or not member.has_begun
                self._send(member, Halt(as_))
        self._changed.set()

    def waits_in_vain(self) -> None:
        """Nothing will happen any more: the run fails, with who waits for whom."""
        quiet_s = self.silence.lasts_s(self.now())
        hint = "; `missing.then: skip` goes on without" if self._plan.experiment.missing.then == "wait" else ""
        working = [rank for rank in sorted(self._members) if self._is_working(rank)]
        waiting = [rank for rank in working if self.silence.awaited(rank) is not None] or working
        for rank in waiting:
            awaited = self.silence.awaited(rank) or "a message that will never come"
            words = f"waits for {awaited}, in vain: nothing has happened for {quiet_s:.0f} s of emulated time{hint}"
            self._fail(rank, Failure(words))

    def break_down(self, words: str) -> None:
        """A process that all nodes need is gone: the run cannot go on."""
        for rank, member in self._members.items():
            member.is_wanted_dead = True
            if member.end is None:
                self._doomed.add(rank)
        self._coming.clear()
        self.stop("failed", "stopped")
        self._averages.give_up()
        self._hurry()
        if words not in self._broken:
            self._broken.append(words)
            self._note(Event(self.now(), "broken", words))

    def died(self, rank: int, pid: int, words: str) -> None:
        """A node's process is over."""
        member = self._members.get(rank)
        if member is None or member.pid != pid:
            return
        if member.link is None:
            for entrance in self._entrances:
                entrance.let_in()  # it may have called only to say why it ends
        if member.link is not None:
            member.link.drain()  # its last words may still be on their way
        if member.end is None:
            self._watch.gone(rank)
            if member.why is not None:
                self._cannot(rank, member.why)
            elif member.is_wanted_dead:
                if not self._is_hurried:  # else it is the end of the run that wants it dead
                    self._finished.add(rank)
            else:
                self._note(Event(self.now(), "died", words, node=self._names[rank]))
                self._fail(rank, Failure(f"its process was over before its work: {words}"))
        elif member.end.reason == _DONE:
            self._gone.add(rank)
            if self._is_gone_told:  # many end at once
                self._is_gone_told = False
                asyncio.get_running_loop().call_soon(self._tell_who_is_gone)
        del self._members[rank]
        self._look_around()

    def _tell_who_is_gone(self) -> None:
        """Else those that still send to them would wait for as long as a peer may be silent."""
        self._is_gone_told = True
        for member in self._members.values():
            if member.end is None:
                self._send(member, Finished(tuple(sorted(self._gone))))

    def _hurry(self) -> None:
        """From now on nobody has long for the last of the work."""
        if not self._is_hurried:
            self._is_hurried = True
            self._stopped_at = time.monotonic()

    async def over(self, last: Callable[[], None] = lambda: None) -> Outcome:
        """Wait until every node is done; what `last`, called then, says to be broken still counts."""
        while self._members or self._coming or self._unasked:
            await self._something()
        if self._refusal is not None and not self._broken:  # else what was refused went with what broke
            raise self._refusal
        over_t = self.now()
        if self._reason != "interrupted" and not self._broken:  # else somebody is waiting, or nobody can judge
            try:
                await self._averages.settle(self._stayed, _JUDGING_S)
            except CannotWrite as problem:
                self._cannot_write(problem)
        last()
        failures = tuple(sorted(self._failures, key=lambda each: each.node))
        finished = len(self._finished - self._doomed)
        self._note(Over(over_t, self._reason, finished, len(failures)))
        return Outcome(
            self._reason,
            over_t,
            finished,
            failures,
            self._watch.look(over_t) if self._begun_at is not None else None,
            broken=tuple(self._broken),
            remarks=self._watch.remarks,
        )

    @property
    def is_ending(self) -> bool:
        """Whether everybody was told to end."""
        return self._stopped_at is not None

    @property
    def stopped_at(self) -> float | None:
        """When, by CLOCK_MONOTONIC."""
        return self._stopped_at

    @property
    def is_hurried(self) -> bool:
        """Whether nodes have only a short while to end: nobody can use, or wants, what they would still do."""
        return self._is_hurried

    @property
    def living(self) -> list[int]:
        return sorted(self._members)

    @property
    def overruns(self) -> Mapping[str, Overrun]:
        """What every node said of all its lives; of one that was killed, what it had said before. By name."""
        found: dict[str, Overrun] = {}
        for (rank, _), told in sorted(self._overruns.items()):
            found[self._names[rank]] = _both(found.get(self._names[rank]), told)
        return found

    def judged(self, news: Judged) -> None:
        """What came of an average."""
        self._averages.judged(news)

    def look(self) -> Progress:
        return self._watch.look(self.now())

    def round_of_the_slowest(self) -> int:
        return self._watch.round_of_the_slowest()

    def pid_of(self, rank: int) -> int | None:
        member = self._members.get(rank)
        return None if member is None else member.pid

    def unheard(self, after_s: float) -> dict[int, float]:
        """For how long nothing has been heard of nodes that are at work, by rank, where it is that long."""
        now_s = time.monotonic()
        silent = {rank: now_s - member.heard_s for rank, member in sorted(self._members.items()) if member.has_begun}
        return {rank: for_s for rank, for_s in silent.items() if for_s >= after_s and self._is_working(rank)}

    def is_expected(self, rank: int) -> bool:
        """Whether its process is being made."""
        return rank in self._coming

    def has_ended(self, rank: int) -> bool:
        """Whether the node has said its last word, though its process may not be over."""
        member = self._members.get(rank)
        return member is None or member.end is not None

    def close(self) -> None:
        for entrance in self._entrances:
            entrance.close()
        self._strangers.close()
        for member in list(self._members.values()):
            if member.link is not None:
                member.link.close()

    def _is_working(self, rank: int) -> bool:
        member = self._members.get(rank)
        return member is not None and member.end is None

    def _note(self, record: AnyRecord) -> None:
        """What cannot be written ends the run, in as good order as may be: nothing else is left undone for it."""
        try:
            self._log.write(record)
        except CannotWrite as problem:
            self._cannot_write(problem)

    def _cannot_write(self, problem: CannotWrite) -> None:
        if self._is_unwritten:
            return
        self._is_unwritten = True
        if problem.message not in self._broken:
            self._broken.append(problem.message)
        self.stop("failed", "stopped")
        self._hurry()

    async def _something(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # -- the nodes' side -------------------------------------------------------------------------------------------

    def _welcome(self, connection: socket.socket) -> None:
        pid = _peer_pid(connection)
        for rank, member in self._members.items():
            if member.pid == pid and member.link is None:
                self._listen_to(rank, member, connection)
                return
        self._strangers.add(pid, connection)

    def _welcome_at(self, rank: int, connection: socket.socket) -> None:
        member = self._members.get(rank)
        if member is None or member.link is not None:  # it has begun no life, or this is not its first call in it
            connection.close()
        else:
            self._listen_to(rank, member, connection)

    def _listen_to(self, rank: int, member: _Member, connection: socket.socket) -> None:
        allowance = Allowance(lambda: self._tell_of_flood(rank))
        member.link = PacketLink(connection, lambda packet: self._hear(rank, member, packet), lambda: None, allowance)
        if self.is_ending:
            self._send(member, Halt("stopped"))
        elif member.halted is not None:
            self._send(member, Halt(member.halted))

    def _hear(self, rank: int, member: _Member, packet: bytes) -> None:
        member.heard_s = time.monotonic()
        try:
            message = FROM_NODE.read(packet)
        except ProtocolError as problem:
            self._misunderstand(rank, member, str(problem))
            return
        match message:
            case Hello():
                pass  # who it is, its process id has told
            case Ready():
                member.is_ready = True
                if self._begun_at is not None:
                    self._send(member, Finished(tuple(sorted(self._gone))))
                    self._send(member, Go(self._begun_at))
            case Recorded(text):
                self._record(rank, member, text)
            case Idle():
                member.is_idle = True
                self._look_around()
            case Left() if rank in self._plan.learners:
                there = [each for each in self._plan.learners if self._is_working(each) or each in self._stayed]
                self._averages.left(rank, msgspec.structs.replace(message, t=self._not_later(message.t)), there)
            case Overrun():
                self._overruns[rank, member.pid] = message
            case Unable():
                member.why = message
        self._changed.set()

    def _not_later(self, t: float) -> float:
        """A learner's time, which control's log can hold whatever it says."""
        return min(max(0.0, t), self.now())

    def _tell_of_flood(self, rank: int) -> None:
        detail = f"more than {RATE_PER_S:g} messages a second: what it says is heard late"
        self._note(Event(self.now(), "flood", detail, node=self._names[rank]))

    def _misunderstand(self, rank: int, member: _Member, problem: str) -> None:
        member.misunderstood += 1
        if member.misunderstood == 1:
            self._note(Event(self.now(), "not-understood", problem[:200], node=self._names[rank]))
        if member.misunderstood == _MOST_MISUNDERSTOOD and member.link is not None:
            member.link.close()
            if member.end is None:  # nobody would ever hear of its end
                member.is_wanted_dead = True
                words = f"it has said what is no message {_MOST_MISUNDERSTOOD} times: nobody listens to it any more"
                self._fail(rank, Failure(words))

    def _record(self, rank: int, member: _Member, text: bytes) -> None:
        try:
            record = _RECORDS.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            self._misunderstand(rank, member, str(problem))
            return
        if member.end is not None and isinstance(record, Start | End):
            self._misunderstand(rank, member, "a life ends once")
            return
        if isinstance(record, Start):
            member.has_begun = True
            self._stayed.discard(rank)
        self._watch.recorded(rank, record)
        self.silence.recorded(rank, record, self.now())
        if isinstance(record, End):
            member.end = record
            if record.failure is not None:
                self._fail(rank, record.failure)
            elif record.reason == _LEFT and member.halted != _LEFT and not self.is_ending:
                self._unasked[rank] = asyncio.get_running_loop().call_later(_SAME_HAND_S, self._left_unasked, rank)
            elif record.reason != _INTERRUPTED and not any(each.node == self._names[rank] for each in self._failures):
                self._finished.add(rank)
                if record.reason != _LEFT and rank in self._plan.learners:
                    self._stayed.add(rank)
            self._look_around()
        if isinstance(record, Evaluation):
            self._stop_if_good_enough()
        if self._tell is not None and time.monotonic() - self._told_at > _TELL_EVERY_S:
            self._told_at = time.monotonic()
            self._tell(self.look())

    def _left_unasked(self, rank: int) -> None:
        """Who ended the node with SIGTERM, such as by `docker stop`, did not end the run."""
        self._unasked.pop(rank, None)
        self._fail(rank, Failure("it was ended by SIGTERM, which came from outside of the run"))
        self._changed.set()

    def _fail(self, rank: int, failure: Failure) -> None:
        self._failures.append(NodeFailure(self._names[rank], failure))
        self._note(Event(self.now(), "failed", failure.message, node=self._names[rank]))
        self.stop("failed", "stopped")

    def _cannot(self, rank: int, why: Unable) -> None:
        """A node could not begin, or go on: before the start barrier nothing at all is trained then."""
        if why.unwritten:  # what all nodes need is gone
            self.break_down(f"{self._names[rank]}: {why.reason}")
        elif why.refused and self._begun_at is None:
            self._refusal = PreflightRefused(why.reason, why.hint)
            self._note(Event(self.now(), "refused", why.reason, node=self._names[rank]))
            self.stop("failed", "stopped")
        else:
            self._fail(rank, Failure(why.reason, why.file, why.line))

    def _look_around(self) -> None:
        """Those that only serve others may end when nobody needs them."""
        working = [member for member in self._members.values() if member.end is None]
        if working and not self._coming and all(member.is_idle for member in working):
            for member in working:
                self._send(member, Quiet())
        if not working and not self._coming:
            for member in self._members.values():
                self._send(member, Halt("stopped"))  # what it has sent last, nobody will read any more
        self._changed.set()

    def _stop_if_good_enough(self) -> None:
        target = self._plan.experiment.stop.accuracy
        server = self._plan.server
        judged = [server] if server is not None else [rank for rank in self._plan.learners if rank in self._members]
        if target is not None and self._watch.has_reached(target, judged):
            self.stop("accuracy", "stopped")

    @staticmethod
    def _send(member: _Member, message: Message) -> None:
        if member.link is not None:
            member.link.send(message)


def _both(before: Overrun | None, now: Overrun) -> Overrun:
    """Of all lives of a node."""
    if before is None:
        return now
    return Overrun(
        before.steps + now.steps,
        before.late + now.late,
        max(before.worst_late_s, now.worst_late_s),
        before.tx_dropped + now.tx_dropped,
        before.added_s + now.added_s,
    )


def _peer_pid(connection: socket.socket) -> int:
    """Whose connection it is, as the kernel knows: a node cannot claim to be another."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], "little", signed=True)
