"""One node's process.

Takes its setup; has a network namespace, a connection to control, sockets to its peers, and a journal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
import traceback
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.code import CodeProblem
from testbed.control.packets import PacketLink
from testbed.engines.attach import NodeNetwork, join_network
from testbed.engines.attempt import during
from testbed.engines.counters import CounterReader
from testbed.engines.denied import NetworkDenied
from testbed.engines.privileges import drop_privileges
from testbed.engines.steps import Step
from testbed.errors import TestbedError
from testbed.journal import CannotWrite, Journal
from testbed.node.choose import choose_algorithm
from testbed.node.compute_slots import ComputeSlots
from testbed.node.event_loop import NodeLoop
from testbed.node.expected_traffic import largest_message_bytes
from testbed.node.life import Life, Reason, build_of_this_process
from testbed.node.mailbox import Room
from testbed.node.messages import Message
from testbed.node.node import Node
from testbed.node.real_clock import RealClock
from testbed.node.real_compute import Own, RealCompute
from testbed.node.snapshots import Snapshot, newest_snapshot
from testbed.node.unawaited import unawaited_are_told
from testbed.node.world import Vector
from testbed.node.zmq_inbox import Refusal
from testbed.node.zmq_transport import ZmqTransport
from testbed.parent import die_with_parent
from testbed.plan.first_peers import first_peers
from testbed.plan.model import NodePlan
from testbed.plan.tcp import tcp_of
from testbed.protocol.message import encode
from testbed.protocol.nodes import (
    TO_NODE,
    Connect,
    Finished,
    Go,
    Halt,
    Hello,
    Idle,
    Left,
    Listening,
    Overrun,
    Quiet,
    Ready,
    Recorded,
    Stood,
    Unable,
)
from testbed.records import AnyRecord, Build, line
from testbed.rundir import NodeDirectory
from testbed.runtimes.processes.loopback import on_loopback
from testbed.runtimes.processes.shared_models import ModelSlots
from testbed.runtimes.tracking.process_records import CONNECTED_S, PORT
from testbed.socket_paths import connect

_LAST_WORDS_S = 5.0
_TELL_EVERY_S = 2.0
"""Between two reports of how computing fares, which are signs of life, too: a killed node loses no more of that."""
_TURNS, _MOST_TURNS = 3, 1000
"""Of the event loop, in which all that its sockets hold is read; at most so many where a peer's last message broke off.

One turn accepts a connection, and the next reads it."""
_ARRIVAL_S = 10.0
"""How long, in emulated time, the last of what was sent may take to arrive."""


@dataclass(frozen=True)
class NodePaths:
    """The files and sockets of a node's process: its own, and those that it shares with others."""

    directory: NodeDirectory
    control: Path
    fabric: Path
    slots: Path
    cores: int
    """As many nodes may compute at once."""


@dataclass(frozen=True)
class NodeSetup:
    """All that a node's process is given."""

    paths: NodePaths
    rank: int
    own: Own
    models: ModelSlots
    rejoin: str | None
    first_round: int
    absent: frozenset[int]
    """Ranks of those that join later: they are not waited for."""
    loopback: int = 0
    """Without an engine: the second byte of all addresses, which are the loopback device's then; else 0."""
    leaves_on_sigterm: bool = False
    """It leaves in good order when its container is stopped."""


def live(setup: NodeSetup, plan: NodePlan, parent: int) -> None:
    """The node's whole life, its network included; whatever it prints goes to its log.

    It dies with its parent, the zygote: no other process would reap it.
    """
    directory = setup.paths.directory
    log = os.open(directory.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    try:
        _get_network(setup, plan)
    except NetworkDenied as denied:
        tell_control(setup.paths, Unable(denied.message, denied.hint, refused=True))
        raise
    die_with_parent(parent)  # the kernel forgets it when a process changes what it may do
    lead_life(setup, plan)


def lead_life(setup: NodeSetup, plan: NodePlan) -> None:
    """The life of a node that has its network."""
    with unawaited_are_told(), asyncio.Runner(loop_factory=NodeLoop) as runner:
        runner.run(_Process(setup, plan).run())


def _get_network(setup: NodeSetup, plan: NodePlan) -> None:
    if setup.loopback:
        with during(Step.PRIVILEGES):
            drop_privileges()
        return
    join_network(NodeNetwork(plan.node.address, tcp_of(plan)), setup.paths.fabric)


def tell_control(paths: NodePaths, message: Unable) -> None:
    """The only word of a node that cannot begin."""
    with suppress(OSError), connect(paths.control) as control:
        control.send(encode(message))


class _Process:
    """One node between its sockets."""

    def __init__(self, setup: NodeSetup, plan: NodePlan) -> None:
        self._setup = setup
        self._plan = plan
        self._directory = setup.paths.directory
        self._life: Life | None = None
        self._ends_at_once: Reason | None = None
        """Why it is to end, where it heard so before its life began."""
        self._early: list[tuple[int, Message]] = []
        """Messages that came before the node was there."""
        self._early_room: Room
        self._refusals: list[str] = []
        """Before the node was there."""
        self._go: asyncio.Future[float]
        self._peers_listen: asyncio.Event
        self._quiet: asyncio.Event
        self._released: asyncio.Event
        """Set when no node waits any more for what this one has sent."""
        self._finished: frozenset[int] = frozenset()
        """Peers that are done and gone."""
        self._link: PacketLink
        self._compute: RealCompute | None = None
        self._transport: ZmqTransport | None = None
        self._counters: CounterReader | None = None
        """Of the emulated network's device, if there is one."""

    async def run(self) -> None:
        """From the first word to control until the last record."""
        loop = asyncio.get_running_loop()
        self._go, self._quiet = loop.create_future(), asyncio.Event()
        self._released, self._peers_listen = asyncio.Event(), asyncio.Event()
        if self._setup.leaves_on_sigterm:
            loop.add_signal_handler(signal.SIGTERM, self._halt, Reason.LEFT)
        self._link = PacketLink(connect(self._setup.paths.control), self._hear, self._lost)
        self._link.send(Hello(self._setup.rank, os.getpid()))
        try:
            await self._between_sockets()
        except TestbedError as problem:
            is_unwritten = isinstance(problem, CannotWrite)
            self._link.send(Unable(problem.message, problem.hint, unwritten=is_unwritten))
            raise
        except Exception as problem:
            self._link.send(Unable(f"{type(problem).__name__}: {problem}"))
            raise
        finally:
            self._link.finish(_LAST_WORDS_S)

    async def _between_sockets(self) -> None:
        block = self._setup.loopback
        addresses = [on_loopback(each, block) if block else each for each in self._plan.addresses]
        parameters = self._setup.own.trainer.parameters
        self._early_room = Room(4 * parameters)
        transport = self._transport = ZmqTransport(
            self._setup.rank,
            addresses,
            PORT,
            self._receive,
            largest=largest_message_bytes(self._plan.experiment, parameters),
            on_refusal=self._refused,
            time_scale=self._plan.time_scale,
        )
        try:
            self._counters = None if block else CounterReader()
            clock = RealClock(time.monotonic(), self._plan.time_scale)
            paths = self._setup.paths
            slots = ComputeSlots(paths.slots, paths.cores, self._setup.rank)
            asyncio.get_running_loop().add_signal_handler(signal.SIGCONT, slots.step_aside)
            compute = self._compute = RealCompute(self._setup.own, self._plan, clock, slots)
            self._link.send(Listening())
            build, _ = await asyncio.gather(self._warm(compute), self._connect(transport))
            self._link.send(Ready())
            clock.t0 = await self._go
            telling = asyncio.ensure_future(self._tell_how_it_fares(compute))
            try:
                reason = await self._live(clock, compute, transport, build)
                if reason in (Reason.FINISHED, Reason.LEFT):
                    await self._until_arrived(transport)
            finally:
                telling.cancel()
                self._link.send(self._overrun(compute))
        finally:
            transport.close()
            if self._counters is not None:
                self._counters.close()

    @property
    def _is_late(self) -> bool:
        """Others are at work already."""
        return self._setup.rejoin is not None or self._setup.rank in self._setup.absent

    async def _connect(self, transport: ZmqTransport) -> None:
        """Peers connect before the first round; a node that comes later cannot wait: the others are at work."""
        peers = [rank for rank in first_peers(self._plan) if rank not in self._setup.absent]
        if not self._is_late:
            await self._peers_listen.wait()
        await transport.connect(peers, 0.0 if self._is_late else CONNECTED_S * self._plan.time_scale)

    async def _warm(self, compute: RealCompute) -> Build:
        """What is needed the first time is done before the start barrier: so many processes would do it all at once."""
        await compute.warm(is_late=self._is_late)
        experiment = self._plan.experiment
        with suppress(CodeProblem):  # the node's own life will tell
            choose_algorithm(experiment.algorithm.name, experiment.algorithm.options)
        return build_of_this_process()

    async def _until_arrived(self, transport: ZmqTransport) -> None:
        """What the kernel has sent may be lost on the way: with this process its network would be gone."""
        arrived = asyncio.ensure_future(transport.all_arrived(_ARRIVAL_S * self._plan.time_scale))
        released = asyncio.ensure_future(self._released.wait())
        await asyncio.wait((arrived, released), return_when=asyncio.FIRST_COMPLETED)
        for each in (arrived, released):
            each.cancel()

    async def _live(self, clock: RealClock, compute: RealCompute, transport: ZmqTransport, build: Build) -> Reason:
        journal = Journal(self._directory.journal)
        node = Node(
            self._plan,
            clock=clock,
            transport=transport,
            compute=compute,
            journal=journal,
            observer=self,
            snapshot=self._snapshot(),
            first_round=self._setup.first_round,
            snapshots=self._directory.snapshots,
        )
        self._life = Life(node, build, self._setup.rejoin)
        if self._ends_at_once is not None:
            self._life.end_early(self._ends_at_once)
        for sender, message in self._early:
            node.mailbox.put(sender, message)
        node.others_finished(self._finished)
        self._tell_what_was_refused()
        while (left_s := clock.t0 - time.monotonic()) > 0.0:  # no node's time is negative, by no rounding either
            await asyncio.sleep(left_s)
        try:
            reason = await self._life.live(self._until_quiet)
            if self._life.raised is not None:
                traceback.print_exception(self._life.raised)  # into the node's log: how it came to that line
            return reason
        finally:
            compute.close()
            journal.close()

    async def _tell_how_it_fares(self, compute: RealCompute) -> None:
        """Now and then, even without anything new, so that silence means something."""
        while True:
            await asyncio.sleep(_TELL_EVERY_S)
            self._link.send(self._overrun(compute))

    def _overrun(self, compute: RealCompute) -> Overrun:
        over = compute.overruns
        lost = 0 if self._counters is None else self._counters.read().tx_dropped
        return Overrun(over.works, over.late, over.worst_s, lost, over.added_s + compute.behind_s())

    def _snapshot(self) -> Snapshot | None:
        if self._setup.rejoin != "last":
            return None
        return newest_snapshot(self._directory.snapshots, self._setup.own.trainer.parameters)

    def _until_quiet(self) -> Awaitable[None]:
        self._link.send(Idle())
        return self._wait_for_quiet()

    async def _wait_for_quiet(self) -> None:
        await self._quiet.wait()

    def _receive(self, sender: int, message: Message) -> None:
        if self._life is None:
            if self._early_room.take(sender, message):
                self._early.append((sender, message))
        else:
            self._life.node.mailbox.put(sender, message)

    def _refused(self, refusal: Refusal, sender: int | None, count: int) -> None:
        name = "an unknown sender" if sender is None else self._plan.ranks[sender]
        self._refusals.append(f"{refusal}: {count} so far from {name}")
        if self._life is not None:
            self._tell_what_was_refused()

    def _tell_what_was_refused(self) -> None:
        while self._refusals:
            words = self._refusals.pop(0)
            if self._life is not None and self._life.reason is None:
                self._life.node.note("refused", words)

    def _hear(self, packet: bytes) -> None:
        match TO_NODE.read(packet):
            case Go(monotonic_s=t0) if not self._go.done():
                self._go.set_result(t0)
            case Halt(reason=reason):
                self._halt(Reason(reason))
            case Connect():
                self._peers_listen.set()
            case Quiet():
                self._quiet.set()
            case Finished(ranks=ranks):
                self._are_finished(frozenset(ranks))
            case Stood(since_s=since_s, until_s=until_s) if self._compute is not None:
                self._compute.stood(since_s, until_s)

    def _are_finished(self, ranks: frozenset[int]) -> None:
        """Tells the node of peers that have finished, after the last that they have sent."""
        before, self._finished = self._finished, ranks
        if self._life is None:
            return
        node = self._life.node
        node.others_live_again(before - ranks)
        if news := ranks - before:
            self._tell_after_the_last(node, news)

    def _tell_after_the_last(self, node: Node, finished: frozenset[int], turn: int = 0) -> None:
        """All that they sent has arrived in this machine's kernel; it may not have been read."""
        is_unread = self._transport is not None and self._transport.holds_any_of(finished)
        if turn < _TURNS or (is_unread and turn < _MOST_TURNS):
            asyncio.get_running_loop().call_soon(self._tell_after_the_last, node, finished, turn + 1)
        else:
            node.others_finished(finished & self._finished)

    def _halt(self, reason: Reason) -> None:
        if not self._go.done():
            os._exit(0)  # it has not begun, and there is nothing to keep
        self._released.set()
        if self._life is None:
            self._ends_at_once = reason
        else:
            self._life.end_early(reason)

    def _lost(self) -> None:
        """Without control nothing would end it."""
        if self._life is None or self._life.reason is None:
            os._exit(1)

    # -- Observer --------------------------------------------------------------------------------------------------

    def recorded(self, rank: int, record: AnyRecord) -> None:  # noqa: ARG002
        self._link.send(Recorded(line(record)))

    def model(self, rank: int, round_: int, vector: Vector) -> None:
        """A copy is left to be averaged, if a slot is free; a server's is not averaged."""
        if self._plan.node.learner is None or self._life is None:
            return
        slot = self._setup.models.put(rank, vector, is_last=round_ + 1 == self._plan.experiment.stop.rounds)
        self._link.send(Left(round_, slot, self._life.node.now()))
