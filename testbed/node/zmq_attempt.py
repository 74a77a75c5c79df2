"""Attempts to reach one peer, until its process has answered.

Takes two addresses, gives a socket over which ZeroMQ's protocol has been opened; touches sockets.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

from testbed.node.zmtp import SOCKET_PULL, SOCKET_PUSH, ForeignProtocol, Opening, opening

OPENING = opening(SOCKET_PUSH)
IGNORED_BYTES = 4096
"""Read at once of what the other end says after its opening: nothing that matters."""
_RETRY_MS, _RETRY_MS_MAX = 100, 400
"""Delay between refused attempts; where there is no node, attempts are not answered at all."""
_BIND_ADDRESS_NO_PORT = 24
"""Socket option: the kernel chooses the port when it connects, so that there are enough of them."""


class Attempt:
    """Repeats attempts, each of the given duration, until `on_up` takes the connection."""

    def __init__(
        self,
        source: str,
        peer: tuple[str, int],
        wait_s: float,
        handshake_s: float,
        on_up: Callable[[Attempt], None],
    ) -> None:
        self._source, self._peer = source, peer
        self._wait_s, self._handshake_s = wait_s, handshake_s
        self._on_up = on_up
        self._loop = asyncio.get_running_loop()
        self._is_wanted = True
        self._retry_ms = _RETRY_MS
        self._has_complained = False
        self._timer: asyncio.Handle | None = None
        self._socket: socket.socket | None = None
        self._opening = Opening(SOCKET_PULL)
        self.is_answered = False
        """Whether the peer's kernel has accepted the current attempt."""
        self._begin()

    def taken(self) -> socket.socket:
        """Gives the socket away, which is up."""
        made, self._socket = self._socket, None
        assert made is not None, "it is up"  # noqa: S101
        return made

    def close(self) -> None:
        self._is_wanted = False
        self._drop()

    def close_in_good_order(self) -> None:
        """Closes once the handshake is over: to the peer, breaking it off would look like a foreign protocol."""
        self._is_wanted = False
        if not self.is_answered and not self._is_connected():
            self._drop()

    def _is_connected(self) -> bool:
        """Whether the peer's kernel has accepted it by now, though this loop has not been told."""
        if self._socket is None:
            return False
        with suppress(OSError):
            self._socket.getpeername()
            return True
        return False

    def _begin(self) -> None:
        self._drop()
        try:
            made = self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as problem:
            if not self._has_complained:
                self._has_complained = True
                sys.stderr.write(f"cannot connect to {self._peer[0]}: {problem.strerror}; retrying\n")
            self._try_later()
            return
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        try:
            made.bind((self._source, 0))
            with suppress(BlockingIOError):
                made.connect(self._peer)
        except OSError:
            self._try_later()
            return
        self._loop.add_writer(made, self._connected)
        self._timer = self._loop.call_later(self._wait_s, self._try_later)

    def _connected(self) -> None:
        made = self._socket
        assert made is not None, "it is attempted"  # noqa: S101
        self._loop.remove_writer(made)
        self._stop_timer()
        if made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._try_later()
            return
        self.is_answered = True
        try:
            made.send(OPENING)  # there is room for this much
        except OSError:
            self._try_later()
            return
        self._opening = Opening(SOCKET_PULL)
        self._loop.add_reader(made, self._hear)
        self._timer = self._loop.call_later(self._handshake_s, self._try_later)

    def _hear(self) -> None:
        assert self._socket is not None, "it is attempted"  # noqa: S101
        try:
            data = self._socket.recv(IGNORED_BYTES)
            is_open = bool(data) and self._opening.rest_after(data) is not None
        except BlockingIOError:
            return
        except (OSError, ForeignProtocol):
            data, is_open = b"", False
        if not data:
            self._try_later()
        elif is_open and self._is_wanted:
            self._stop_timer()
            self._loop.remove_reader(self._socket)
            self._on_up(self)
        elif is_open:
            self._drop()

    def _try_later(self) -> None:
        self._drop()
        if self._is_wanted:
            self._timer = self._loop.call_later(self._retry_ms / 1000, self._begin)
            self._retry_ms = min(2 * self._retry_ms, _RETRY_MS_MAX)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self) -> None:
        self._stop_timer()
        self.is_answered = False
        if self._socket is not None:
            self._loop.remove_writer(self._socket)
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None
