"""One connection to one peer: it is attempted, then up, then over.

Takes two addresses, gives a way to write messages, and the kernel's counters of it; touches sockets. A connection that
is over is never used again: a new one is made instead, so that nothing is resent unasked.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from testbed.node.zmq_attempt import IGNORED_BYTES, OPENING, Attempt
from testbed.node.zmq_tcp_info import TcpProgress, cut_off, keep_little_unsent, progress, writable_when_sent

_ATTEMPT_MS = 2000
"""The kernel repeats SYN after one second, and then ever more rarely: after this time a new attempt begins."""
_HASTY_ATTEMPTS = 2
_PATIENT_MS = 60_000
"""Round trips may be longer than that: beside later attempts, one attempt waits this long for an answer."""
HANDSHAKE_MS = 30_000
"""How long the protocol's handshake may take, at both ends; it needs about one round trip."""


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

    def _attempt(self, wait_ms: float) -> Attempt:
        s = self._time_scale / 1000
        return Attempt(self._source, self._peer, wait_ms * s, HANDSHAKE_MS * s, self._take)

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

    def _take(self, attempt: Attempt) -> None:
        """Makes an attempt the connection."""
        self._timer.cancel()
        self._tcp = attempt.taken()
        self.position = self._written = len(OPENING)
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
            is_over = not self._tcp.recv(IGNORED_BYTES)
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
