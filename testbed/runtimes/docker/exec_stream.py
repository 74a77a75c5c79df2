"""What a command that the Engine runs in a container reads and prints: one connection, which HTTP has handed over.

Takes the id that the Engine has given the command, and starts it; gives its input, output and errors; touches the
Engine's socket. Not by the SDK, which reads the head of the answer through a buffer, and what follows past it: of a
quick command on a busy machine the first lines would be lost.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.errors import CouldNotStart, PreflightRefused
from testbed.image.engine_client import engine_address, refused

_REQUEST = (
    "POST /exec/{id}/start HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
    "Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
)
_WORDS = b'{"Detach":false,"Tty":false}'
_UPGRADED = b" 101 "
_END_OF_HEAD = b"\r\n\r\n"
_MOST_HEAD_BYTES = 1 << 16
_ANSWER_S = 60.0
_FRAME = struct.Struct(">BxxxL")
_ERRORS = 2
_CHUNK_BYTES = 1 << 16


class ExecStream:
    """Of a command that has been started."""

    def __init__(self, connection: socket.socket, received: bytes) -> None:
        self._connection = connection
        self._received = received

    def fileno(self) -> int:
        """Readable when there may be something to receive."""
        return self._connection.fileno()

    def send(self, data: bytes) -> int:
        """To its standard input; how much of it was taken. Whoever does not read any more takes everything."""
        try:
            return self._connection.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def end_input(self) -> None:
        try:
            self._connection.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it has ended meanwhile

    def receive(self) -> bool:
        """Waits for more; whether there was any, or it is the end."""
        try:
            data = self._connection.recv(_CHUNK_BYTES)
        except ConnectionResetError:
            return False
        self._received += data
        return bool(data)

    def frames(self) -> Iterator[tuple[bool, bytes]]:
        """What was received and is complete, once: whether it was printed as an error, and the text."""
        while len(self._received) >= _FRAME.size:
            kind, length = _FRAME.unpack_from(self._received)
            end = _FRAME.size + length
            if len(self._received) < end:
                return
            text, self._received = self._received[_FRAME.size : end], self._received[end:]
            yield kind == _ERRORS, text


def engine_socket(hint: str) -> str:
    """Its path; raises PreflightRefused, with what to do then, for an Engine that is reached otherwise."""
    kind, _, path = engine_address().partition("://")
    if kind != "unix":
        raise PreflightRefused(
            f"commands in containers go through the Engine's UNIX socket, and this one is at {kind}://{path}",
            hint,
        )
    return path


@contextmanager
def attached(id_: str, hint: str) -> Iterator[ExecStream]:
    """The command begins; raises what the Engine says when it does not, PreflightRefused as `engine_socket` does."""
    path = engine_socket(hint)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_S)
        try:
            connection.connect(path)
            connection.sendall(_REQUEST.format(id=id_, length=len(_WORDS)).encode() + _WORDS)
            head, rest = _head(connection)
        except OSError as problem:
            raise CouldNotStart(f"the Docker Engine does not answer any more: {problem}") from None
        connection.settimeout(None)
        if _UPGRADED not in head.partition(b"\r\n")[0]:
            raise refused(_said(rest) or head.partition(b"\r\n")[0].decode(errors="replace"))
        yield ExecStream(connection, rest)


def _head(connection: socket.socket) -> tuple[bytes, bytes]:
    """Of the answer, and what has come with it."""
    received = b""
    while _END_OF_HEAD not in received:
        data = connection.recv(_CHUNK_BYTES)
        if not data or len(received) > _MOST_HEAD_BYTES:
            raise CouldNotStart("the Docker Engine has hung up, instead of running the command")
        received += data
    head, _, rest = received.partition(_END_OF_HEAD)
    return head, rest


def _said(body: bytes) -> str:
    """Its words about what is wrong."""
    text = body.decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text
