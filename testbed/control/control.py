"""Control: start barrier, liveness, progress, stop rules.

Takes what nodes report, tells them when to begin and to end; touches its socket and control's log. How nodes are
started, and what the topology's events do to them, is the runtime's affair.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from testbed.control.log import ControlLog
from testbed.control.outcome import NodeFailure, Outcome
from testbed.control.packets import PacketLink, listen
from testbed.control.progress import Progress, Tell, Watch
from testbed.errors import PreflightRefused
from testbed.plan.model import RunPlan
from testbed.protocol import (
    FROM_NODE,
    Go,
    Halt,
    Hello,
    Idle,
    Message,
    Overrun,
    ProtocolError,
    Quiet,
    Ready,
    Recorded,
    Unable,
)
from testbed.records import AnyRecord, End, Evaluation, Event, Failure, Over, Start

_RECORDS = msgspec.json.Decoder(AnyRecord)
_TELL_EVERY_S = 0.2
_LEAD_S = 0.3
"""From telling everybody to begin until the beginning: all have heard by then."""
_MOST_STRANGERS = 4096
_MOST_MISUNDERSTOOD = 100
"""Messages of one node that are no messages; then it is not listened to any more."""


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
        self.why: Unable | None = None
        """What it said before it gave up."""
        self.misunderstood = 0


class Control:
    """One run's control, in one asyncio loop."""

    def __init__(self, plan: RunPlan, log: ControlLog, *, tell: Tell | None = None) -> None:
        stop = plan.experiment.stop
        self._plan = plan
        self._log = log
        self._tell = tell
        self._told_at = 0.0
        self._names = [node.name for node in plan.nodes]
        self._watch = Watch(plan.learners, stop.rounds, stop.time_s)
        self._members: dict[int, _Member] = {}
        self._coming: set[int] = set()
        self._strangers: dict[int, socket.socket] = {}
        """Connections of processes that nobody has told of yet, by process id."""
        self._failures: list[NodeFailure] = []
        self._broken: list[str] = []
        self._refusal: PreflightRefused | None = None
        self._finished: set[int] = set()
        self._overruns: dict[int, Overrun] = {}
        self._reason = "finished"
        self._stopped_at: float | None = None
        self._changed = asyncio.Event()
        self._begun_at: float | None = None
        self._listener: socket.socket | None = None

    # -- the runtime's side ----------------------------------------------------------------------------------------

    def listen(self, path: Path) -> None:
        """From now on nodes can report."""
        self._listener = listen(path)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def expect(self, rank: int) -> None:
        """A node will be started: the run is not over before it has lived."""
        self._coming.add(rank)
        self._finished.discard(rank)

    def started(self, rank: int, pid: int) -> None:
        """A node's process was made: it will say hello, or has."""
        self._coming.discard(rank)
        member = self._members[rank] = _Member(pid)
        self._log.write(Event(self.now(), "joined", node=self._names[rank]))
        member.is_wanted_dead = self.is_ending
        if (connection := self._strangers.pop(pid, None)) is not None:
            self._listen_to(rank, member, connection)

    async def all_ready(self, ranks: Collection[int]) -> bool:
        """Wait until these nodes are; False when the run is over before."""
        while not all(rank in self._members and self._members[rank].is_ready for rank in ranks):
            if self.is_ending:
                return False
            await self._something()
        return not self.is_ending

    def begin(self) -> float:
        """Everybody begins at the same moment of CLOCK_MONOTONIC, which it gives."""
        self._begun_at = time.monotonic() + _LEAD_S
        for member in self._members.values():
            self._send(member, Go(self._begun_at))
        stop = self._plan.experiment.stop
        if stop.time_s is not None:
            asyncio.get_running_loop().call_later(stop.time_s + _LEAD_S, lambda: self.stop("time", "stopped"))
        return self._begun_at

    def now(self) -> float:
        """Emulated seconds; 0 before the beginning."""
        return 0.0 if self._begun_at is None else max(0.0, time.monotonic() - self._begun_at)

    def wants_dead(self, rank: int) -> None:
        """The node's end is planned, however it comes about."""
        if rank in self._members:
            self._members[rank].is_wanted_dead = True

    def halt(self, rank: int, reason: str) -> None:
        """One node ends in good order."""
        if rank in self._members:
            self._send(self._members[rank], Halt(reason))

    def stop(self, reason: str, as_: str) -> None:
        """Everybody ends; the first reason stays."""
        if not self.is_ending:
            self._reason = reason
            self._stopped_at = time.monotonic()
        for member in self._members.values():
            if member.end is None:
                member.is_wanted_dead = member.is_wanted_dead or not member.has_begun
                self._send(member, Halt(as_))
        self._changed.set()

    def break_down(self, words: str) -> None:
        """A process that all nodes need is gone: the run cannot go on."""
        for member in self._members.values():
            member.is_wanted_dead = True
        self._coming.clear()
        self.stop("failed", "stopped")
        if words not in self._broken:
            self._broken.append(words)
            self._log.write(Event(self.now(), "broken", words))

    def died(self, rank: int, pid: int, words: str) -> None:
        """A node's process is over."""
        member = self._members.get(rank)
        if member is None or member.pid != pid:
            return
        if member.link is not None:
            member.link.drain()  # its last words may still be on their way
        if member.end is None:
            self._watch.gone(rank)
            if member.why is not None:
                self._cannot(rank, member.why)
            elif member.is_wanted_dead:
                self._finished.add(rank)
            else:
                self._log.write(Event(self.now(), "died", words, node=self._names[rank]))
                self._fail(rank, Failure(f"its process was over before its work: {words}"))
        del self._members[rank]
        self._look_around()

    async def over(self) -> Outcome:
        """Wait until every node is done."""
        while self._members or self._coming:
            await self._something()
        if self._refusal is not None:
            raise self._refusal
        failures = tuple(sorted(self._failures, key=lambda each: each.node))
        self._log.write(Over(self.now(), self._reason, len(self._finished), len(failures)))
        return Outcome(
            self._reason,
            self.now(),
            len(self._finished),
            failures,
            self.look() if self._begun_at is not None else None,
            broken=tuple(self._broken),
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
    def reason(self) -> str:
        return self._reason

    @property
    def living(self) -> list[int]:
        return sorted(self._members)

    @property
    def overruns(self) -> Mapping[str, Overrun]:
        """What every node that could still say it said, by name."""
        return {self._names[rank]: told for rank, told in sorted(self._overruns.items())}

    def look(self) -> Progress:
        return self._watch.look(self.now())

    def round_of_the_slowest(self) -> int:
        return self._watch.round_of_the_slowest()

    def pid_of(self, rank: int) -> int | None:
        member = self._members.get(rank)
        return None if member is None else member.pid

    def has_ended(self, rank: int) -> bool:
        """Whether the node has said its last word, though its process may not be over."""
        member = self._members.get(rank)
        return member is None or member.end is not None

    def close(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
        for connection in self._strangers.values():
            connection.close()
        self._strangers.clear()
        for member in list(self._members.values()):
            if member.link is not None:
                member.link.close()

    async def _something(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # -- the nodes' side -------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._listener is not None  # noqa: S101 - it is its reader
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        pid = _peer_pid(connection)
        for rank, member in self._members.items():
            if member.pid == pid and member.link is None:
                self._listen_to(rank, member, connection)
                return
        # Whoever forked it may not have been heard yet.
        if pid in self._strangers or len(self._strangers) >= _MOST_STRANGERS:
            connection.close()
        else:
            self._strangers[pid] = connection

    def _listen_to(self, rank: int, member: _Member, connection: socket.socket) -> None:
        member.link = PacketLink(connection, lambda packet: self._hear(rank, member, packet), lambda: None)
        if self.is_ending:
            self._send(member, Halt("stopped"))

    def _hear(self, rank: int, member: _Member, packet: bytes) -> None:
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
                    self._send(member, Go(self._begun_at))
            case Recorded(text):
                self._record(rank, member, text)
            case Idle():
                member.is_idle = True
                self._look_around()
            case Overrun():
                self._overruns[rank] = _both(self._overruns.get(rank), message)
            case Unable():
                member.why = message
        self._changed.set()

    def _misunderstand(self, rank: int, member: _Member, problem: str) -> None:
        member.misunderstood += 1
        if member.misunderstood == 1:
            self._log.write(Event(self.now(), "not-understood", problem[:200], node=self._names[rank]))
        if member.misunderstood >= _MOST_MISUNDERSTOOD and member.link is not None:
            member.link.close()

    def _record(self, rank: int, member: _Member, text: bytes) -> None:
        try:
            record = _RECORDS.decode(text)
        except msgspec.MsgspecError as problem:
            self._misunderstand(rank, member, str(problem))
            return
        if isinstance(record, Start):
            member.has_begun = True
        self._watch.recorded(rank, record)
        if isinstance(record, End):
            member.end = record
            if record.failure is not None:
                self._fail(rank, record.failure)
            else:
                self._finished.add(rank)
            self._look_around()
        if isinstance(record, Evaluation):
            self._stop_if_good_enough()
        if self._tell is not None and time.monotonic() - self._told_at > _TELL_EVERY_S:
            self._told_at = time.monotonic()
            self._tell(self.look())

    def _fail(self, rank: int, failure: Failure) -> None:
        self._failures.append(NodeFailure(self._names[rank], failure))
        self._log.write(Event(self.now(), "failed", failure.message, node=self._names[rank]))
        self.stop("failed", "stopped")

    def _cannot(self, rank: int, why: Unable) -> None:
        """A node could not begin: before the start barrier nothing at all is trained then."""
        if why.refused and self._begun_at is None:
            self._refusal = PreflightRefused(why.reason, why.hint)
            self._log.write(Event(self.now(), "refused", why.reason, node=self._names[rank]))
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
    )


def _peer_pid(connection: socket.socket) -> int:
    """Whose connection it is, as the kernel knows: a node cannot claim to be another."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], "little", signed=True)
