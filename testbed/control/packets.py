"""UNIX sockets of whole packets, in an asyncio loop.

Takes a socket and what to do with its packets, touches the socket. What cannot be sent at once waits, up to a bound.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from testbed.control.token_bucket import TokenBucket
from testbed.protocol.message import MAX_MESSAGE_BYTES, OUT_OF_ROOM, Message, encode
from testbed.socket_paths import short_enough

_MOST_WAITING = 100_000
_MOST_LAST_WORDS = 8192
_BACKLOG = 1024
_CLOSED_S = 0.5
"""The pause in accepting connections when descriptors have run out."""
_AT_ONCE = 64
"""Packets taken from one socket before others get their turn."""


class PacketLink:
    """One end of a connection."""

    def __init__(
        self,
        connection: socket.socket,
        on_packet: Callable[[bytes], None],
        on_over: Callable[[], None],
        bucket: TokenBucket | None = None,
        receive: Callable[[socket.socket], bytes] | None = None,
    ) -> None:
        """`bucket` limits how fast packets are read; without one all are read as they come.

        `receive` is for packets that more is to be known of than their bytes.
        """
        self._bucket = bucket
        self._pause: asyncio.TimerHandle | None = None
        self._socket = connection
        self._on_packet = on_packet
        self._on_over = on_over
        self._receive = receive or _receive
        self._waiting: deque[bytes] = deque()
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._is_deaf = False
        connection.setblocking(False)
        self._loop.add_reader(connection, self._read)

    def send(self, message: Message) -> None:
        """Send now, or as soon as the other side takes it; nothing is sent when the connection is over."""
        if self._is_over or self._is_deaf:
            return
        self._waiting.append(encode(message))
        if len(self._waiting) == 1:
            self._write()
        elif len(self._waiting) > _MOST_WAITING:
            self.close()  # the other side has stopped reading

    def close(self) -> None:
        """End the connection, and say so to `on_over`."""
        if self._is_over:
            return
        self._is_over = True
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._on_over()

    def finish(self, within_s: float) -> None:
        """Send what is waiting, which the loop has to wait for, and end the connection."""
        if not self._is_over:
            self._loop.remove_writer(self._socket)
            self._socket.settimeout(within_s)
            with suppress(OSError):
                while self._waiting:
                    self._socket.send(self._waiting.popleft())
        self.close()

    def drain(self) -> None:
        """Everything that the other side, which is dead, has said; then it is over.

        Another process may have inherited its end of the socket, and go on: more than a socket holds is not read.
        """
        self._bucket = None
        for _ in range(_MOST_LAST_WORDS // _AT_ONCE):
            if self._is_over or not self._read():
                break
        self.close()

    def _read(self) -> bool:
        """Whether there may be more."""
        for _ in range(_AT_ONCE):
            if self._is_over:
                return False
            try:
                packet = self._receive(self._socket)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                continue  # told once, of what it has not read; what it had said before can still be read
            except OSError:
                packet = b""
            if not packet:
                self.close()
                return False
            self._on_packet(packet)
            wait_s = 0.0 if self._bucket is None else self._bucket.spend(self._loop.time())
            if wait_s and not self._is_over:
                self._loop.remove_reader(self._socket)
                self._pause = self._loop.call_later(wait_s, self._go_on)
                return False
        return True

    def _go_on(self) -> None:
        self._loop.add_reader(self._socket, self._read)

    def _write(self) -> None:
        while self._waiting:
            try:
                self._socket.send(self._waiting[0])
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._write)
                return
            except OSError:
                # The other side has gone; what it had said before is still to be read, and after it the end.
                self._is_deaf = True
                self._waiting.clear()
                break
            self._waiting.popleft()
        self._loop.remove_writer(self._socket)


def _receive(connection: socket.socket) -> bytes:
    return connection.recv(MAX_MESSAGE_BYTES + 1)


class Entrance:
    """A socket that others connect to, for this user only; for use inside a running event loop."""

    def __init__(self, path: Path, on_connection: Callable[[socket.socket], None]) -> None:
        self._on_connection = on_connection
        self._loop = asyncio.get_running_loop()
        self._closed_for: asyncio.TimerHandle | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        with short_enough(path) as name:
            self._listener.bind(name)
        path.chmod(0o600)
        self._listener.listen(_BACKLOG)
        self._open()

    def close(self) -> None:
        if self._closed_for is not None:
            self._closed_for.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def let_in(self) -> None:
        """All who wait now."""
        while self._accept():
            pass

    def _open(self) -> None:
        self._closed_for = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> bool:
        """Whether a connection was waiting."""
        try:
            connection, _ = self._listener.accept()
        except OSError as problem:
            if problem.errno in OUT_OF_ROOM and self._closed_for is None:
                self._loop.remove_reader(self._listener)
                self._closed_for = self._loop.call_later(_CLOSED_S, self._open)
            return False
        self._on_connection(connection)
        return True
