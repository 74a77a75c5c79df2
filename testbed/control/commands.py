"""What commands may ask of a run that goes on: what connects to its command socket acts for its user.

Takes requests, gives answers; touches the socket. What is asked for, the run does (`Obey`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

import msgspec

from testbed.control.packets import Entrance, PacketLink
from testbed.endpoints import Endpoint, connect_to
from testbed.errors import PreflightRefused, TestbedError, UsageProblem
from testbed.protocol.fabric import ResetLink, SetLink
from testbed.protocol.message import MAX_MESSAGE_BYTES, Message, ProtocolError, Reader, encode

_PATIENCE_S = 45.0
"""Longer than the run itself waits for the fabric."""


class Inject(Message, frozen=True):
    """This happens to these nodes, now; the run undoes it, even if the command is gone by then."""

    action: str
    """As in a topology's events, or `kill`."""
    ranks: tuple[int, ...]
    for_s: float | None = None
    """It is undone after so many emulated seconds."""
    restarts: dict[int, int] = msgspec.field(default_factory=dict)
    """In containers: how often the Engine starts some of them again at most, by rank, as it has been told now."""


class Divide(Message, frozen=True):
    """Nodes of different groups do not reach each other any more."""

    groups: tuple[tuple[int, ...], ...]
    for_s: float | None = None


class Reunite(Message, frozen=True):
    """The partition of this name ends, or all that were made by hand."""

    name: str | None = None


class Flap(Message, frozen=True):
    """The links between two ends go down and come up again, some times."""

    origin: str
    dest: str
    both: bool
    down_s: float
    """Emulated seconds, as the next one."""
    every_s: float
    """From going down to going down."""
    times: int


class Look(Message, frozen=True):
    """How far the run is."""


class EndRun(Message, frozen=True):
    """The run ends in good order."""


class Done(Message, frozen=True):
    """Success. What ends by itself is told of twice: when it begins, and when it has ended."""

    t: float
    """Emulated seconds."""
    what: str = ""
    until_t: float | None = None
    """When it ends by itself; another `Done` says so then."""


class Denied(Message, frozen=True):
    reason: str
    hint: str = ""
    refused: bool = False
    """This run can never do it, whatever is asked."""


class Seen(Message, frozen=True):
    """Answer to `Look`."""

    phase: str
    """`starting`, `training` or `ending`."""
    t: float
    rounds: int
    rounds_planned: int | None
    nodes: int
    done: int
    accuracy: float | None
    loss: float | None
    bytes_sent: int
    lateness_p99_ms: float | None = None
    packets: int | None = None
    overloaded: tuple[str, ...] = ()
    """Why its numbers so far are not those of what was asked for."""
    unheard: tuple[str, ...] = ()
    """Nodes of which nothing has been heard for a while."""


Command = Union[  # noqa: UP007 - msgspec reads it at run time
    Inject, Divide, Reunite, Flap, SetLink, ResetLink, Look, EndRun
]
Reply = Union[Done, Denied, Seen]  # noqa: UP007 - msgspec reads it at run time
Obey = Callable[[Command], AsyncIterator[Reply]]
"""Does what is asked, and says so, now and perhaps later; raises TestbedError for what cannot be."""
_COMMANDS: Reader[Command] = Reader(Command)
_REPLIES: Reader[Reply] = Reader(Reply)


class CommandDoor:
    """Answers every connection in its own time; for use inside a running event loop."""

    def __init__(self, path: Path, obey: Obey) -> None:
        self._obey = obey
        self._tasks: dict[PacketLink, set[asyncio.Task[None]]] = {}
        self._loop = asyncio.get_running_loop()
        self._entrance = Entrance(path, self._welcome)

    def close(self) -> None:
        self._entrance.close()
        for link in list(self._tasks):
            link.close()

    def _welcome(self, connection: socket.socket) -> None:
        link = PacketLink(connection, lambda packet: self._hear(link, packet), lambda: self._forget(link))
        self._tasks[link] = set()

    def _forget(self, link: PacketLink) -> None:
        """The connection is over; what has begun goes on all the same."""
        for task in self._tasks.pop(link, set()):
            task.cancel()

    def _hear(self, link: PacketLink, packet: bytes) -> None:
        try:
            command = _COMMANDS.read(packet)
        except ProtocolError as problem:
            link.send(Denied(str(problem)))
            return
        task = self._loop.create_task(self._answer(link, command))
        self._tasks[link].add(task)
        task.add_done_callback(lambda done: self._tasks.get(link, set()).discard(done))

    async def _answer(self, link: PacketLink, command: Command) -> None:
        try:
            async for reply in self._obey(command):
                link.send(reply)
        except TestbedError as problem:
            link.send(Denied(problem.message, problem.hint, isinstance(problem, PreflightRefused)))


class Conversation:
    """One connection to a run's endpoint."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def ask(self, command: Command) -> Done | Seen:
        """The first answer; raises UsageProblem, or PreflightRefused for what this run can never do."""
        try:
            self._connection.send(encode(command))
        except OSError as problem:
            raise _silent(problem) from None
        reply = self.next(_PATIENCE_S)
        if reply is None:
            raise UsageProblem("the run has just ended")
        return reply

    def next(self, within_s: float | None = None) -> Done | Seen | None:
        """What the run says next; None when it has ended instead."""
        self._connection.settimeout(within_s)
        try:
            said = self._connection.recv(MAX_MESSAGE_BYTES)
        except ConnectionResetError:
            return None
        except OSError as problem:
            raise _silent(problem) from None
        if not said:
            return None
        try:
            reply = _REPLIES.read(said)
        except (ProtocolError, msgspec.MsgspecError) as problem:
            raise UsageProblem(f"the run's answer is not understood: {problem}") from None
        if isinstance(reply, Denied):
            kind = PreflightRefused if reply.refused else UsageProblem
            raise kind(reply.reason, reply.hint)
        return reply


@contextmanager
def conversation(endpoint: Endpoint) -> Iterator[Conversation]:
    """With the run at this endpoint; raises UsageProblem where there is none."""
    try:
        connection = connect_to(endpoint, _PATIENCE_S)
    except PermissionError:
        raise UsageProblem("the run is another user's", "only the user who started it can reach it") from None
    except OSError as problem:
        raise _silent(problem) from None
    with connection:
        yield Conversation(connection)


def ask(endpoint: Endpoint, command: Command) -> Done | Seen:
    """The first answer of the run at this endpoint."""
    with conversation(endpoint) as run:
        return run.ask(command)


def _silent(problem: OSError) -> UsageProblem:
    return UsageProblem(f"the run does not answer: {problem.strerror or problem}")
