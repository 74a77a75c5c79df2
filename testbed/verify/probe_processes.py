"""The probe processes: one for every measured node, in the node's network namespace; it forks one for every order.

Takes addresses and orders, gives answers; starts and ends processes. They end by themselves with their parent.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from testbed.engines.attach import NodeNetwork, join_network
from testbed.engines.kernel import be_quick
from testbed.engines.privileges import User, drop_privileges
from testbed.errors import CouldNotStart, PreflightRefused, TestbedError
from testbed.runtimes.enter import enter_network
from testbed.verify.probe_protocol import (
    MOST_BYTES,
    AnyAnswer,
    AnyOrder,
    Begin,
    Echo,
    ProbeAnswer,
    ProbeFailed,
    Ready,
    ReceiveDatagrams,
    Respond,
    SendDatagrams,
    TcpReceive,
    TcpSend,
    packed,
    read_answer,
    read_order,
)
from testbed.verify.probes import echo, respond
from testbed.verify.streams import receive, send, tcp_receive, tcp_send

_JOINED = b"joined"
_JOIN_PATIENCE_S = _READY_PATIENCE_S = 60.0
HEADSTART_S = 0.3
"""From when all orders are ready until they begin: each has to be told."""
_TIME = struct.Struct("=d")
_LONGEST_REASON = 500
_LONGEST_ORDER_S = 3600
_MOST_DESCRIPTORS = 65_536
_NOBODY = User(65_534, 65_534)


class MeasuringFailed(CouldNotStart):
    """A probe process failed: it was killed, or this machine denied it something halfway."""


@dataclass(frozen=True)
class ProbeNode:
    """The probe process of one node."""

    rank: int
    pid: int
    channel: socket.socket

    def order(self, order: AnyOrder) -> None:
        """Raises MeasuringFailed when it has ended."""
        try:
            self.channel.send(packed(order))
        except OSError as problem:
            raise MeasuringFailed(f"a probe process has ended: {problem.strerror or problem}") from None

    def end(self) -> None:
        """Ends the probe process and everything it has forked."""
        self.channel.close()
        os.waitpid(self.pid, 0)


def new_node(rank: int, network: NodeNetwork, fabric_socket: Path) -> ProbeNode:
    """A probe process that has joined the network; raises PreflightRefused naming the denied step."""

    def join() -> None:
        join_network(network, fabric_socket, _nobody())

    return _start_node(rank, join)


def node_beside(rank: int, pid: int) -> ProbeNode:
    """A probe process in the network of the living process `pid`; raises PreflightRefused naming the denied step."""

    def join() -> None:
        enter_network(pid)
        drop_privileges(_nobody())

    return _start_node(rank, join)


def _nobody() -> User | None:
    return _NOBODY if os.geteuid() == 0 else None


def _start_node(rank: int, join: Callable[[], None]) -> ProbeNode:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        _live(theirs, join)
    theirs.close()
    node = ProbeNode(rank, pid, mine)
    mine.settimeout(_JOIN_PATIENCE_S)
    try:
        told = mine.recv(MOST_BYTES)
    except TimeoutError:
        told = b"it did not say anything"
    if told != _JOINED:
        os.kill(pid, signal.SIGKILL)
        node.end()
        message, _, hint = told.decode(errors="replace").partition("\n")
        raise PreflightRefused(f"node {rank} has no network: {message or 'it ended'}", hint)
    return node


def _live(channel: socket.socket, join: Callable[[], None]) -> NoReturn:
    """Runs in the child: closes everything inherited, and kills all that it forked when it ends."""
    os.setsid()  # first: the group that is killed at the end must be its own
    be_quick()  # what a busy machine adds to times is not the network's
    try:
        descriptor = channel.fileno()
        os.closerange(3, descriptor)
        os.closerange(descriptor + 1, _MOST_DESCRIPTORS)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        try:
            join()
        except TestbedError as problem:
            channel.send(f"{problem.message}\n{problem.hint}".encode()[:_LONGEST_REASON])
        else:
            channel.send(_JOINED)
            _obey(channel)
    finally:
        os.killpg(0, signal.SIGKILL)
        os._exit(1)


def _obey(channel: socket.socket) -> None:
    ready: dict[int, int] = {}
    while data := channel.recv(MOST_BYTES):
        order = read_order(data)
        if isinstance(order, Begin):
            with open(ready.pop(order.number), "wb", buffering=0) as told, suppress(BrokenPipeError):
                told.write(_TIME.pack(order.at_s))
            continue
        waiting, ready[order.number] = os.pipe()
        if os.fork() == 0:
            try:
                signal.alarm(_LONGEST_ORDER_S)
                channel.send(packed(_carry_out(order, partial(_begin, channel, order.number, waiting))))
            finally:
                os._exit(0)
        os.close(waiting)


def _begin(channel: socket.socket, number: int, waiting: int) -> float:
    channel.send(packed(Ready(number)))
    at_s: float = _TIME.unpack(os.read(waiting, _TIME.size))[0]
    return at_s


def _carry_out(order: AnyOrder, begin: Callable[[], float]) -> ProbeAnswer:
    try:
        match order:
            case Respond():
                return respond(order, begin)
            case Echo():
                return echo(order, begin)
            case SendDatagrams():
                return send(order, begin)
            case ReceiveDatagrams():
                return receive(order, begin)
            case TcpSend():
                return tcp_send(order, begin)
            case TcpReceive():
                return tcp_receive(order, begin)
            case Begin():
                raise ValueError("no order that begins")
    except Exception as problem:  # the parent waits for an answer in any case
        return ProbeFailed(order.number, f"{type(problem).__name__}: {problem}"[:_LONGEST_REASON])


class ProbeNodes:
    """The probe processes by rank; orders go out, answers come back by number."""

    def __init__(self, start: Callable[[int], ProbeNode]) -> None:
        self._start = start
        self._nodes: dict[int, ProbeNode] = {}
        self._numbers = 0
        self._ranks: dict[int, int] = {}
        """Of those that carry out orders, by number."""

    def join(self, rank: int) -> None:
        if rank not in self._nodes:
            self._nodes[rank] = self._start(rank)

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def pid(self, rank: int) -> int:
        """Id of the process in the node's network namespace."""
        return self._nodes[rank].pid

    def order(self, rank: int, order: AnyOrder) -> None:
        """The order gets ready; `begin` makes it begin."""
        self._ranks[order.number] = rank
        self._nodes[rank].order(order)

    def begin(self, numbers: set[int]) -> float:
        """All of these orders begin at once, as soon as the last of them is ready; gives when.

        However busy this machine is, receivers listen by then. Raises MeasuringFailed as `answers` does.
        """
        self.answers(numbers, time.monotonic() + _READY_PATIENCE_S)
        at_s = time.monotonic() + HEADSTART_S
        for number in sorted(numbers):
            self._nodes[self._ranks.pop(number)].order(Begin(number, at_s))
        return at_s

    def answers(self, numbers: set[int], until_s: float) -> dict[int, AnyAnswer]:
        """Answers to all of these orders; raises MeasuringFailed when one fails or takes too long."""
        found: dict[int, AnyAnswer] = {}
        channels = [node.channel for node in self._nodes.values()]
        while missing := numbers - found.keys():
            ready = select.select(channels, [], [], max(0.0, until_s - time.monotonic()))[0]
            if not ready:
                raise MeasuringFailed(f"{len(missing)} measurements did not end")
            for channel in ready:
                try:
                    data = channel.recv(MOST_BYTES)
                except ConnectionResetError:
                    data = b""
                if not data:
                    raise MeasuringFailed("a probe process has ended")
                answer = read_answer(data)
                if isinstance(answer, ProbeFailed):
                    raise MeasuringFailed(f"a measurement failed: {answer.reason}")
                found[answer.number] = answer
        return found

    def end(self) -> None:
        for node in self._nodes.values():
            node.end()
        self._nodes.clear()
