"""What other commands may ask of a run that goes on: who connects to its command socket is its user.

Takes requests, gives answers; touches the socket. What is asked for is done by whoever made the door.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Union

import msgspec

from testbed.control.packets import PacketLink, connect, listen
from testbed.errors import TestbedError, UsageProblem
from testbed.protocol import MAX_MESSAGE_BYTES, Message, ProtocolError, Reader, encode

_PATIENCE_S = 30.0


class Inject(Message, frozen=True):
    """This happens to these nodes, now."""

    action: str
    """As in a topology's events, or `kill`."""
    ranks: tuple[int, ...]


class Look(Message, frozen=True):
    """How far the run is."""


class EndRun(Message, frozen=True):
    """The run ends in good order."""


class Done(Message, frozen=True):
    t: float
    """Emulated seconds."""


class Denied(Message, frozen=True):
    reason: str
    hint: str = ""


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


Command = Union[Inject, Look, EndRun]  # noqa: UP007 - msgspec reads it at run time
Reply = Union[Done, Denied, Seen]  # noqa: UP007 - msgspec reads it at run time
_COMMANDS: Reader[Command] = Reader(Command)
_REPLIES: Reader[Reply] = Reader(Reply)


class CommandDoor:
    """Answers one command after the other, of whoever connects; for use inside a running event loop."""

    def __init__(self, path: Path, do: Callable[[Command], Reply]) -> None:
        self._do = do
        self._links: set[PacketLink] = set()
        self._listener = listen(path)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for link in list(self._links):
            link.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        link = PacketLink(connection, lambda packet: self._hear(link, packet), lambda: self._links.discard(link))
        self._links.add(link)

    def _hear(self, link: PacketLink, packet: bytes) -> None:
        try:
            link.send(self._do(_COMMANDS.read(packet)))
        except ProtocolError as problem:
            link.send(Denied(str(problem)))
        except TestbedError as problem:
            link.send(Denied(problem.message, problem.hint))


def ask(path: Path, command: Command) -> Done | Seen:
    """The answer of the run whose door it is; raises UsageProblem where there is none, or it says no."""
    try:
        connection: socket.socket = connect(path, _PATIENCE_S)
        with connection:
            connection.send(encode(command))
            said = connection.recv(MAX_MESSAGE_BYTES)
    except OSError as problem:
        raise UsageProblem(f"the run does not answer: {problem.strerror or problem}") from None
    if not said:
        raise UsageProblem("the run has just ended")
    try:
        reply = _REPLIES.read(said)
    except (ProtocolError, msgspec.MsgspecError) as problem:
        raise UsageProblem(f"the run's answer is not understood: {problem}") from None
    if isinstance(reply, Denied):
        raise UsageProblem(reply.reason, reply.hint)
    return reply
