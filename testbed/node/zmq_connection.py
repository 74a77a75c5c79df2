"""One connection to one peer: it is attempted, then up, then over.

Takes two addresses, gives a way to write messages, and the kernel's counters of it; touches sockets. A connection that
is over is never used again: a new one is made instead, so that nothing is resent unasked.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from testbed.node.zmq_tcp_info import TcpProgress, cut_off, keep_little_unsent, progress, writable_when_sent
from testbed.node.zmtp import SOCKET_PULL, SOCKET_PUSH, ForeignProtocol, Opening, opening

_RETRY_MS, _RETRY_MS_MAX = 100, 400
"""Delay between refused attempts; where there is no node, attempts are not answered at all."""
_ATTEMPT_MS = 2000
"""The kernel repeats SYN after one second, and then ever more rarely: after this time a new attempt begins."""
_HASTY_ATTEMPTS = 2
_PATIENT_MS = 60_000
"""Round trips may be longer than that: beside later attempts, one attempt waits this long for an answer."""
HANDSHAKE_MS = 30_000
"""How long the protocol's handshake may take, at both ends; it needs about one round trip."""
_OPENING = opening(SOCKET_PUSH)
_IGNORED_BYTES = 4096
"""Read at once of what the other end says after its opening: nothing that matters."""
_BIND_ADDRESS_NO_PORT = 24
"""Socket option: the kernel chooses the port when it connects, so that there are enough of them."""


class _Attempt:
    """Repeats attempts, each of the given duration, until `on_up` takes the connection."""

    def __init__(
        self,
        source: str,
        peer: tuple[str, int],
        wait_s: float,
        handshake_s: float,
        on_up: Callable[[_Attempt], None],
    ) -> None:
        self._source, self._peer = source, peer
        self._wait_s, self._handshake_s = wait_s, handshake_s
        self._on_up = on_up
        self._loop = asyncio.get_running_loop()
        self._is_wanted = True
        self._retry_ms = _RETRY_MS
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
        made = self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
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
            made.send(_OPENING)  # there is room for this much
        except OSError:
            self._try_later()
            return
        self._opening = Opening(SOCKET_PULL)
        self._loop.add_reader(made, self._hear)
        self._timer = self._loop.call_later(self._handshake_s, self._try_later)

    def _hear(self) -> None:
        assert self._socket is not None, "it is attempted"  # noqa: S101
        try:
            data = self._socket.recv(_IGNORED_BYTES)
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


class ZmqConnection:
    """Calls `on_up` once when the peer has answered, and `on_over` once when the connection is lost afterwards."""

    def __init__(
        self,
        source: str,
        peer: tuple[str, int],
        time_scale: float,
        on_up: Callable[[ZmqConnection], None],
        on_over: Callable[[ZmqConnection], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_up = on_up
        self._on_over = on_over
        self._source, self._peer = source, peer
        self._time_scale = time_scale
        self._tcp: socket.socket | None = None
        self._unwritten: list[bytes | memoryview] = []
        """What the kernel has no room for yet."""
        self.position = 0
        """Bytes handed over, the opening included."""
        self._written = 0
        self._on_sent: Callable[[], None] | None = None
        self._attempts = [self._attempt(_ATTEMPT_MS)]
        """Once the connection is up, those that are not needed and end in good order."""
        self._timer = self._loop.call_later(_HASTY_ATTEMPTS * _ATTEMPT_MS / 1000 * time_scale, self._try_patiently)

    def _attempt(self, wait_ms: float) -> _Attempt:
        s = self._time_scale / 1000
        return _Attempt(self._source, self._peer, wait_ms * s, HANDSHAKE_MS * s, self._take)

    def _try_patiently(self) -> None:
        if not self._attempts[0].is_answered:  # otherwise the peer answers in time
            self._attempts.append(self._attempt(_PATIENT_MS))

    @property
    def is_up(self) -> bool:
        return self._tcp is not None

    def progress(self) -> TcpProgress:
        """The kernel's counters; the connection must be up."""
        assert self._tcp is not None, "it must be up"  # noqa: S101
        return progress(self._tcp)

    def send(self, buffers: list[bytes | memoryview]) -> None:
        """Writes a message, now and whenever the kernel has room. The buffers must not change until all has left."""
        self.position += sum(map(len, buffers))
        self._unwritten = [*self._unwritten, *buffers] if self._unwritten else buffers
        self._write()

    def when_sent(self, on_sent: Callable[[], None]) -> None:
        """Calls back, once, soon after the last byte has left."""
        assert self._tcp is not None, "it must be up"  # noqa: S101
        self._on_sent = on_sent
        if not self._unwritten:
            writable_when_sent(self._tcp)
        self._loop.add_writer(self._tcp, self._write)

    def close(self, *, forget: bool) -> None:
        """Stops all callbacks. Unsent bytes in the kernel are dropped if `forget`, otherwise sent in the background."""
        self._timer.cancel()
        self._stop()
        if self._tcp is not None:
            if forget:
                cut_off(self._tcp)
            self._tcp.close()
            self._tcp = None
        for attempt in self._attempts:
            attempt.close()

    def _take(self, attempt: _Attempt) -> None:
        """Makes an attempt the connection."""
        self._timer.cancel()
        self._tcp = attempt.taken()
        self.position = self._written = len(_OPENING)
        keep_little_unsent(self._tcp)
        self._loop.add_reader(self._tcp, self._something_came)
        self._attempts.remove(attempt)
        for other in self._attempts:
            other.close_in_good_order()
        self._on_up(self)

    def _write(self) -> None:
        """Writes what the kernel has room for; calls back if all has been sent."""
        tcp = self._tcp
        if tcp is None:
            return
        if not self._unwritten:
            self._loop.remove_writer(tcp)
            keep_little_unsent(tcp)
            told, self._on_sent = self._on_sent, None
            if told is not None:
                told()
            return
        try:
            written = tcp.sendmsg(self._unwritten)
        except BlockingIOError:
            written = 0
        except OSError:
            self._unwritten.clear()
            self._loop.call_soon(self._is_over)
            return
        self._written += written
        self._unwritten = _without(self._unwritten, written) if self._written < self.position else []
        if self._unwritten or self._on_sent is not None:
            if not self._unwritten:
                writable_when_sent(tcp)
            self._loop.add_writer(tcp, self._write)

    def _something_came(self) -> None:
        """Ignores what the other end says; notices when it closes or resets the connection."""
        assert self._tcp is not None, "it is up"  # noqa: S101
        try:
            is_over = not self._tcp.recv(_IGNORED_BYTES)
        except BlockingIOError:
            return
        except OSError:
            is_over = True
        if is_over:
            self._is_over()

    def _is_over(self) -> None:
        if self._tcp is not None and self._stop():
            self._on_over(self)

    def _stop(self) -> bool:
        """Ends all reading and writing; whether it had not ended before."""
        if self._tcp is None:
            return False
        self._unwritten.clear()
        self._on_sent = None
        self._loop.remove_writer(self._tcp)
        return self._loop.remove_reader(self._tcp)


def _without(buffers: list[bytes | memoryview], count: int) -> list[bytes | memoryview]:
    """What is left of buffers after their first bytes."""
    for number, each in enumerate(buffers):
        if count < len(each):
            return [memoryview(each)[count:], *buffers[number + 1 :]]
        count -= len(each)
    return []
