"""Control: start barrier, liveness, progress, stop rules.

Takes what nodes report, tells them when to begin and to end; touches its socket and control's log. How nodes are
started, and what the topology's events do to them, is the runtime's affair.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Collection
from pathlib import Path

import msgspec

from testbed.control.log import ControlLog
from testbed.control.outcome import NodeFailure, Outcome
from testbed.control.packets import PacketLink, listen
from testbed.control.progress import Tell, Watch
from testbed.plan.model import RunPlan
from testbed.protocol import FROM_NODE, Go, Halt, Hello, Idle, Message, Overrun, ProtocolError, Quiet, Ready, Recorded
from testbed.records import AnyRecord, End, Evaluation, Event, Failure, Over

_RECORDS = msgspec.json.Decoder(AnyRecord)
_TELL_EVERY_S = 0.2
_LEAD_S = 0.3
"""From telling everybody to begin until the beginning: all have heard by then."""


class _Member:
    """A node whose process was started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.link: PacketLink | None = None
        self.is_ready = False
        self.is_idle = False
        self.end: End | None = None
        self.is_wanted_dead = False
        """Its death is no failure: the topology's events, or the end of the run, want it."""
        self.overrun: Overrun | None = None


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
        self._failures: list[NodeFailure] = []
        self._finished: set[int] = set()
        self._reason = "finished"
        self._changed = asyncio.Event()
        self._begun_at: float | None = None
        self._listener: socket.socket | None = None

    # -- the runtime's side ----------------------------------------------------------------------------------------

    def listen(self, path: Path) -> None:
        """From now on nodes can report."""
        self._listener = listen(path)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def started(self, rank: int, pid: int) -> None:
        """A node's process was made: it will say hello."""
        self._members[rank] = _Member(pid)
        self._finished.discard(rank)
        self._log.write(Event(self.now(), "joined", node=self._names[rank]))

    async def all_ready(self, ranks: Collection[int]) -> bool:
        """Wait until these nodes are; False when the run is over before."""
        while not all(self._members[rank].is_ready for rank in ranks if rank in self._members):
            if self._reason != "finished":
                return False
            await self._something()
        return self._reason == "finished"

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
        """Everybody ends."""
        if self._reason == "finished":
            self._reason = reason
        for member in self._members.values():
            if member.end is None:
                self._send(member, Halt(as_))
        self._changed.set()

    def died(self, rank: int, pid: int, words: str) -> None:
        """A node's process is over."""
        member = self._members.get(rank)
        if member is None or member.pid != pid:
            return
        if member.end is None:
            if member.is_wanted_dead:
                self._finished.add(rank)
                self._watch.gone(rank)
            else:
                self._fail(rank, Failure(f"its process was over before its work: {words}"))
        del self._members[rank]
        self._look_around()

    async def over(self) -> Outcome:
        """Wait until every node is done."""
        while self._members:
            await self._something()
        failures = tuple(sorted(self._failures, key=lambda each: each.node))
        self._log.write(Over(self.now(), self._reason, len(self._finished), len(failures)))
        return Outcome(self._reason, self.now(), len(self._finished), failures, self._watch.look(self.now()))

    def round_of_the_slowest(self) -> int:
        return self._watch.round_of_the_slowest()

    def pid_of(self, rank: int) -> int | None:
        member = self._members.get(rank)
        return None if member is None else member.pid

    def close(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
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
        except BlockingIOError:
            return
        pid = _peer_pid(connection)
        ranks = [rank for rank, member in self._members.items() if member.pid == pid and member.link is None]
        if not ranks:
            connection.close()  # nobody that this run has started
            return
        rank = ranks[0]
        member = self._members[rank]
        member.link = PacketLink(connection, lambda packet: self._hear(rank, member, packet), lambda: None)

    def _hear(self, rank: int, member: _Member, packet: bytes) -> None:
        try:
            message = FROM_NODE.read(packet)
        except ProtocolError as problem:
            self._log.write(Event(self.now(), "not-understood", str(problem)[:200], node=self._names[rank]))
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
                member.overrun = message
        self._changed.set()

    def _record(self, rank: int, member: _Member, text: bytes) -> None:
        try:
            record = _RECORDS.decode(text)
        except msgspec.MsgspecError:
            return
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
            self._tell(self._watch.look(self.now()))

    def _fail(self, rank: int, failure: Failure) -> None:
        self._failures.append(NodeFailure(self._names[rank], failure))
        self._log.write(Event(self.now(), "failed", failure.message, node=self._names[rank]))
        self.stop("failed", "stopped")

    def _look_around(self) -> None:
        """Those that only serve others may end when nobody needs them."""
        working = [member for member in self._members.values() if member.end is None]
        if working and all(member.is_idle for member in working):
            for member in working:
                self._send(member, Quiet())
        self._changed.set()

    def _stop_if_good_enough(self) -> None:
        target = self._plan.experiment.stop.accuracy
        server = self._plan.server
        judged = [server] if server is not None else [rank for rank in self._plan.learners if rank in self._members]
        scores = self._watch.scores
        if target is None or any(rank not in scores for rank in judged):
            return
        mean = self._watch.mean_accuracy()
        if mean is not None and mean >= target:
            self.stop("accuracy", "stopped")

    @staticmethod
    def _send(member: _Member, message: Message) -> None:
        if member.link is not None:
            member.link.send(message)


def _peer_pid(connection: socket.socket) -> int:
    """Whose connection it is, as the kernel knows: a node cannot claim to be another."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], "little", signed=True)
