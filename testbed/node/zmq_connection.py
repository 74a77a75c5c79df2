"""One ZeroMQ connection to one peer: it is attempted, then up, then over.

Takes two addresses, gives a socket to send on and the kernel's counters of it; touches sockets. A connection that is
over is never used again: a new one is made instead, so that ZeroMQ never resends anything by itself.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

import zmq

from testbed.node.zmq_monitor import Monitor
from testbed.node.zmq_tcp_info import TcpProgress, cut_off, handle_of, is_over, keep_little_unsent, progress

_RETRY_MS, _RETRY_MS_MAX = 100, 400
"""Delay between refused attempts; where there is no node, attempts are not answered at all."""
_ATTEMPT_MS = 2000
"""The kernel repeats SYN after one second, and then ever more rarely: after this time a new attempt begins."""
_HASTY_ATTEMPTS = 2
_PATIENT_MS = 60_000
"""Round trips may be longer than that: beside later attempts, one attempt waits this long for an answer."""
HANDSHAKE_MS = 30_000
"""How long ZeroMQ's handshake may take, at both ends; it needs about two round trips."""


class _Attempt:
    """A ZeroMQ socket that repeats attempts, each of the given duration, until `on_up` takes it."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        wait_ms: float,
        handshake_ms: float,
        on_up: Callable[[_Attempt], None],
    ) -> None:
        self._on_up = on_up
        self.descriptor = -1
        """ZeroMQ's descriptor of its current or last connection."""
        self._is_wanted = True
        self.socket = context.socket(zmq.PUSH)
        self.socket.setsockopt(zmq.LINGER, 0)
        # There is one message at a time; a low limit would count those that ZeroMQ has not reported yet.
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.RECONNECT_IVL, _RETRY_MS)
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RETRY_MS_MAX)
        self.socket.setsockopt(zmq.CONNECT_TIMEOUT, round(wait_ms))
        self.socket.setsockopt(zmq.HANDSHAKE_IVL, round(handshake_ms))
        self._monitor = Monitor(self.socket, zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED, self._hear)
        self.socket.connect(endpoint)

    def be_quiet(self) -> None:
        """Stops all callbacks."""
        self._monitor.close()

    def close(self) -> None:
        self.be_quiet()
        self.socket.close(linger=0)

    def close_in_good_order(self) -> None:
        """Closes once the handshake is over: to the peer, breaking it off would look like a foreign protocol."""
        self._is_wanted = False
        self._monitor.read()  # it may have connected by now, or even be up
        if self.descriptor < 0:
            self.close()

    def _hear(self, event: int, value: int) -> None:
        if event == zmq.EVENT_CONNECTED:
            self.descriptor = value
        elif self._is_wanted:
            self._on_up(self)
        else:
            self.close()


class ZmqConnection:
    """Calls `on_up` once when the peer has answered, and `on_over` once when the connection is lost afterwards."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        source: str,
        peer: tuple[str, int],
        time_scale: float,
        on_up: Callable[[ZmqConnection], None],
        on_over: Callable[[ZmqConnection], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_up = on_up
        self._on_over = on_over
        self._peer = peer
        self._tcp: socket.socket | None = None
        self._context = context
        self._endpoint = f"tcp://{source}:0;{peer[0]}:{peer[1]}"
        self._time_scale = time_scale
        self._attempts = [self._attempt(_ATTEMPT_MS)]
        """Once the connection is up, the first is the successful attempt; the others are closed."""
        self._timer = self._loop.call_later(_HASTY_ATTEMPTS * _ATTEMPT_MS / 1000 * time_scale, self._try_patiently)

    def _attempt(self, wait_ms: float) -> _Attempt:
        scale = self._time_scale
        return _Attempt(self._context, self._endpoint, wait_ms * scale, HANDSHAKE_MS * scale, self._take)

    def _try_patiently(self) -> None:
        if self._attempts[0].descriptor < 0:  # otherwise the peer answers in time
            self._attempts.append(self._attempt(_PATIENT_MS))

    @property
    def is_up(self) -> bool:
        return self._tcp is not None

    def progress(self) -> TcpProgress:
        """The kernel's counters; the connection must be up."""
        assert self._tcp is not None, "it must be up"  # noqa: S101
        return progress(self._tcp)

    def send(self, frames: Sequence[zmq.Frame | bytes]) -> bool:
        """Hands over a message; whether ZeroMQ took it, which it does when it holds no other."""
        try:
            to = self._attempts[0].socket
            for frame in frames[:-1]:
                to.send(frame, zmq.NOBLOCK | zmq.SNDMORE, copy=isinstance(frame, bytes))
            to.send(frames[-1], zmq.NOBLOCK, copy=isinstance(frames[-1], bytes))
        except zmq.Again:
            return False
        return True

    def close(self, *, forget: bool) -> None:
        """Stops all callbacks. Unsent bytes in the kernel are dropped if `forget`, otherwise sent in the background."""
        self._timer.cancel()
        for attempt in self._attempts:
            attempt.be_quiet()
        if self._tcp is not None:
            self._loop.remove_reader(self._tcp)
            if forget:
                cut_off(self._tcp)
            self._tcp.close()
            self._tcp = None
        for attempt in self._attempts:
            attempt.close()

    def _take(self, attempt: _Attempt) -> None:
        """Makes an attempt the connection."""
        if not self._take_hold(attempt.descriptor):
            return
        self._timer.cancel()
        attempt.be_quiet()
        others = [other for other in self._attempts if other is not attempt]
        for other in others:
            other.close_in_good_order()
        self._attempts = [attempt, *others]
        self._on_up(self)

    def _take_hold(self, descriptor: int) -> bool:
        """Duplicates the connection's descriptor; False when it is over already and ZeroMQ tries again."""
        found = handle_of(descriptor)
        if found is None:
            return False
        tcp, peer = found
        if peer != self._peer:  # another connection has this descriptor by now
            tcp.close()
            return False
        keep_little_unsent(tcp)
        self._tcp = tcp
        self._loop.add_reader(tcp, self._something_came)
        return True

    def _something_came(self) -> None:
        if self._tcp is not None and is_over(self._tcp):
            self._loop.remove_reader(self._tcp)
            self._on_over(self)
