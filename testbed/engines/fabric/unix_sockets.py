"""The fabric's sockets: one for each node, one for control.

Takes paths, gives connections that never make the fabric wait; touches the sockets. Who cannot keep up is hung up on.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from testbed.protocol.message import MAX_MESSAGE_BYTES, OUT_OF_ROOM, Message, encode
from testbed.socket_paths import short_enough

_BACKLOG = 8
_BUFFER_BYTES = 4 << 20
_MOST_DESCRIPTORS = 4


def listen(path: Path) -> socket.socket:
    """A socket that nobody but its folder's owner can reach; one that a dead fabric left is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    with short_enough(path) as name:
        listener.bind(name)
    listener.listen(_BACKLOG)
    return listener


class NoRoom(Exception):
    """Nobody can be let in now; says why."""


def accept(listener: socket.socket) -> socket.socket | None:
    """The next caller; None when it has hung up already. Raises NoRoom when it has to wait outside."""
    try:
        connection, _ = listener.accept()
    except OSError as problem:
        if problem.errno in OUT_OF_ROOM:
            raise NoRoom(problem.strerror) from None
        return None
    connection.setblocking(False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    return connection


def receive(connection: socket.socket) -> tuple[bytes, list[int]] | None:
    """A message with its descriptors; empty when there is none yet, None when the other side has hung up."""
    try:
        data, descriptors, flags, _ = socket.recv_fds(connection, MAX_MESSAGE_BYTES + 1, _MOST_DESCRIPTORS)
    except BlockingIOError:
        return b"", []
    except OSError:
        return None
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or not data:
        close_all(descriptors)
        return None
    return data, descriptors


def send(connection: socket.socket, message: Message) -> bool:
    """Whether it is on its way."""
    try:
        connection.send(encode(message), socket.MSG_NOSIGNAL)
    except OSError:
        return False
    return True


def close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
