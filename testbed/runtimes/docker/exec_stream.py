"""Standard streams of a command that the Docker Engine runs in a container, over one upgraded HTTP connection.

Takes the id of a created command, and starts it; gives its input, output and errors; touches the Docker Engine's
socket. The SDK is not used: it reads the response header through a buffer, and may lose the first lines of a quick
command.
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
    """The streams of a started command."""

    def __init__(self, connection: socket.socket, received: bytes) -> None:
        self._connection = connection
        self._received = received

    def fileno(self) -> int:
        """A descriptor that is readable when `receive` may not block."""
        return self._connection.fileno()

    def send(self, data: bytes) -> int:
        """Writes to the standard input; gives how much was taken. All of it once the command has closed its input."""
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
            return  # the command has ended

    def receive(self) -> bool:
        """Waits for output; False at the end of the stream."""
        try:
            data = self._connection.recv(_CHUNK_BYTES)
        except ConnectionResetError:
            return False
        self._received += data
        return bool(data)

    def frames(self) -> Iterator[tuple[bool, bytes]]:
        """Takes complete frames: whether a frame is of standard error, and its text."""
        while len(self._received) >= _FRAME.size:
            kind, length = _FRAME.unpack_from(self._received)
            end = _FRAME.size + length
            if len(self._received) < end:
                return
            text, self._received = self._received[_FRAME.size : end], self._received[end:]
            yield kind == _ERRORS, text


def engine_socket(hint: str) -> str:
    """The path of the Docker Engine's socket; raises PreflightRefused with this hint if it has none."""
    kind, _, path = engine_address().partition("://")
    if kind != "unix":
        raise PreflightRefused(
            f"commands in containers need the Docker Engine's UNIX socket, and this one is at {kind}://{path}",
            hint,
        )
    return path


@contextmanager
def attached(id_: str, hint: str) -> Iterator[ExecStream]:
    """Starts the command; raises the Docker Engine's error if it does not start, and as `engine_socket` does."""
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
    """The response header, and the data received after it."""
    received = b""
    while _END_OF_HEAD not in received:
        data = connection.recv(_CHUNK_BYTES)
        if not data or len(received) > _MOST_HEAD_BYTES:
            raise CouldNotStart("the Docker Engine closed the connection instead of running the command")
        received += data
    head, _, rest = received.partition(_END_OF_HEAD)
    return head, rest


def _said(body: bytes) -> str:
    """The message of an error response."""
    text = body.decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text
