"""The processes that measure: one for every node involved, in its own namespace, which forks one for every order.

Takes addresses and orders, gives answers; starts processes and ends them. They end by themselves with their parent.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from testbed.engines.attach import NodeNetwork, join_network
from testbed.engines.kernel import be_quick
from testbed.engines.privileges import User, drop_privileges
from testbed.errors import CouldNotStart, PreflightRefused, TestbedError
from testbed.runtimes.enter import enter_network
from testbed.verify.orders import (
    MOST_BYTES,
    Answer,
    AnyAnswer,
    AnyOrder,
    Echo,
    Failed,
    Receive,
    Respond,
    Send,
    TcpReceive,
    TcpSend,
    packed,
    read_answer,
    read_order,
)
from testbed.verify.probes import echo, respond
from testbed.verify.streams import receive, send, tcp_receive, tcp_send

_JOINED = b"joined"
_JOIN_PATIENCE_S = 60.0
_LONGEST_REASON = 500
_LONGEST_ORDER_S = 3600
_MOST_DESCRIPTORS = 65_536
_NOBODY = User(65_534, 65_534)


class MeasuringFailed(CouldNotStart):
    """A process that measures could not: it was killed, or the machine denied it something halfway."""


@dataclass(frozen=True)
class ProbeNode:
    """One node of the network."""

    rank: int
    pid: int
    channel: socket.socket

    def order(self, order: AnyOrder) -> None:
        """Raises MeasuringFailed when it has ended."""
        try:
            self.channel.send(packed(order))
        except OSError as problem:
            raise MeasuringFailed(f"a process that measures has ended: {problem.strerror or problem}") from None

    def end(self) -> None:
        """The node and all that it does are gone."""
        self.channel.close()
        os.waitpid(self.pid, 0)


def new_node(rank: int, network: NodeNetwork, fabric_socket: Path) -> ProbeNode:
    """A node that has joined the network; raises PreflightRefused, with what was denied."""

    def join() -> None:
        join_network(network, fabric_socket, _nobody())

    return _start_node(rank, join)


def node_beside(rank: int, pid: int) -> ProbeNode:
    """A process in the network of a node that lives, beside it; raises PreflightRefused, with what was denied."""

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
    """In the child: nothing of the parent's is held open, and whoever it forks ends with it."""
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
    while data := channel.recv(MOST_BYTES):
        if os.fork() == 0:
            try:
                signal.alarm(_LONGEST_ORDER_S)
                channel.send(packed(_carry_out(read_order(data))))
            finally:
                os._exit(0)


def _carry_out(order: AnyOrder) -> Answer:
    try:
        match order:
            case Respond():
                return respond(order)
            case Echo():
                return echo(order)
            case Send():
                return send(order)
            case Receive():
                return receive(order)
            case TcpSend():
                return tcp_send(order)
            case TcpReceive():
                return tcp_receive(order)
    except Exception as problem:  # whatever it is, somebody waits for an answer
        return Failed(order.number, f"{type(problem).__name__}: {problem}"[:_LONGEST_REASON])


class Crew:
    """All nodes that measure, by rank; orders go out, answers come back by number."""

    def __init__(self, start: Callable[[int], ProbeNode]) -> None:
        self._start = start
        self._nodes: dict[int, ProbeNode] = {}
        self._numbers = 0

    def join(self, rank: int) -> None:
        if rank not in self._nodes:
            self._nodes[rank] = self._start(rank)

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def pid(self, rank: int) -> int:
        """Of the process whose network is that of the node."""
        return self._nodes[rank].pid

    def order(self, rank: int, order: AnyOrder) -> None:
        self._nodes[rank].order(order)

    def answers(self, numbers: set[int], until_s: float) -> dict[int, AnyAnswer]:
        """To all of these orders; raises MeasuringFailed when one could not be carried out, or takes too long."""
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
                    raise MeasuringFailed("a process that measures has ended")
                answer = read_answer(data)
                if isinstance(answer, Failed):
                    raise MeasuringFailed(f"a measurement failed: {answer.reason}")
                found[answer.number] = answer
        return found

    def end(self) -> None:
        for node in self._nodes.values():
            node.end()
        self._nodes.clear()
