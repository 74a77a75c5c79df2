"""One connection of ZeroMQ to one peer: first it is tried, then it is up, then it is over.

Takes two addresses, gives a socket to send on and the kernel's counts of it; touches sockets. A connection that is over
is never used again: whoever needs another one makes it, so that ZeroMQ never sends anything by itself.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

import zmq

from testbed.node.zmq_kernel import Progress, cut_off, handle_of, is_over, keep_little_unsent, progress
from testbed.node.zmq_monitor import Monitor

_RETRY_MS, _RETRY_MS_MAX = 100, 400
"""Between attempts that are refused; nobody answers at all where there is no node."""
_ATTEMPT_MS = 2000
"""The kernel asks once more after one second, and then ever more rarely: begin anew."""
HANDSHAKE_MS = 30_000
"""How long ZeroMQ's own opening of a connection may take, at both ends; it needs about two round trips."""


class Connection:
    """Calls `on_up` once when the peer has answered, and `on_over` once when the connection is lost after that."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        source: str,
        peer: tuple[str, int],
        time_scale: float,
        on_up: Callable[[Connection], None],
        on_over: Callable[[Connection], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_up = on_up
        self._on_over = on_over
        self._peer = peer
        self._tcp: socket.socket | None = None
        self._descriptor = -1
        self._socket = context.socket(zmq.PUSH)
        self._socket.setsockopt(zmq.LINGER, 0)
        # There is one message at a time; a limit of few would count those that ZeroMQ has not told of yet.
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.setsockopt(zmq.RECONNECT_IVL, _RETRY_MS)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RETRY_MS_MAX)
        self._socket.setsockopt(zmq.CONNECT_TIMEOUT, round(_ATTEMPT_MS * time_scale))
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, round(HANDSHAKE_MS * time_scale))
        self._monitor = Monitor(self._socket, zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED, self._hear)
        self._socket.connect(f"tcp://{source}:0;{peer[0]}:{peer[1]}")

    @property
    def is_up(self) -> bool:
        return self._tcp is not None

    def progress(self) -> Progress:
        """Only of one that is up."""
        assert self._tcp is not None, "it must be up"  # noqa: S101
        return progress(self._tcp)

    def send(self, frames: Sequence[zmq.Frame | bytes]) -> bool:
        """Hand over a message; whether ZeroMQ took it, which it does when it has nothing else."""
        try:
            for frame in frames[:-1]:
                self._socket.send(frame, zmq.NOBLOCK | zmq.SNDMORE, copy=isinstance(frame, bytes))
            self._socket.send(frames[-1], zmq.NOBLOCK, copy=isinstance(frames[-1], bytes))
        except zmq.Again:
            return False
        return True

    def close(self, *, forget: bool) -> None:
        """Nothing is called any more. What the kernel has not sent yet is forgotten, or sent in the background."""
        self._monitor.close()
        if self._tcp is not None:
            self._loop.remove_reader(self._tcp)
            if forget:
                cut_off(self._tcp)
            self._tcp.close()
            self._tcp = None
        self._socket.close(linger=0)

    def _hear(self, event: int, value: int) -> None:
        if event == zmq.EVENT_CONNECTED:
            self._descriptor = value
        elif self._take_hold():
            self._monitor.close()
            self._on_up(self)

    def _take_hold(self) -> bool:
        """Get a descriptor of the connection of our own; False when it is over already, and ZeroMQ tries again."""
        found = handle_of(self._descriptor)
        if found is None:
            return False
        tcp, peer = found
        if peer != self._peer:  # another connection has the number by now
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
