"""What the fabric waits for: descriptors, and who acts when one is readable.

Takes descriptors, gives those that are ready; touches an epoll of its own.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Iterator

from testbed.engines.fabric.ports import Port

HEARTBEAT_S = 0.01
"""So that a process which does not get the processor finds out, though nothing else is to be done."""
_AT_ONCE_S = 0.0001
"""A call that takes no longer has not waited."""


class Waiting:
    """Devices of nodes on the one side, everything else on the other: nodes are many and their turn comes often."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._ports: dict[int, Port] = {}
        self._handlers: dict[int, Callable[[], None]] = {}
        self._turn = 0
        self._polled_s = -math.inf
        self.overslept_s = 0.0
        """By how much the last call has returned later than it was to: nobody looked after anything meanwhile."""

    def add(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, select.EPOLLIN)

    def remove(self, descriptor: int) -> None:
        """To be called before it is closed."""
        self._epoll.unregister(descriptor)
        del self._handlers[descriptor]

    def add_port(self, port: Port) -> None:
        self._ports[port.descriptor] = port
        self._epoll.register(port.descriptor, select.EPOLLIN)

    def remove_port(self, port: Port) -> None:
        """To be called before it is closed: the node may have kept a descriptor of the same open file."""
        self._epoll.unregister(port.descriptor)
        del self._ports[port.descriptor]

    def ready_ports(self, due_s: float) -> Iterator[Port]:
        """The devices that have something to read, all of them; acts on everything else that is ready.

        Waits for that until a time of the host's clock, though not for long; something must be armed to wake it then.
        A port then knows since when it may have had something: it had nothing when all were last asked.
        """
        asked_s = time.monotonic()
        by_s = min(max(due_s, asked_s), asked_s + HEARTBEAT_S)
        timeout_s = HEARTBEAT_S if due_s > asked_s else 0.0
        ready = self._epoll.poll(timeout_s, len(self._ports) + len(self._handlers))
        empty_s, self._polled_s = self._polled_s, time.monotonic()
        self.overslept_s = max(0.0, self._polled_s - by_s)
        if self._polled_s - asked_s > _AT_ONCE_S:
            # Nobody had anything, or there would have been nothing to wait for; but who oversleeps has not looked.
            empty_s = min(self._polled_s, by_s)
        self._turn += 1
        for descriptor, _ in ready:
            port = self._ports.get(descriptor)
            if port is not None:
                if port.turn != self._turn - 1:
                    port.since_s = empty_s
                port.turn = self._turn
                yield port
                continue
            handler = self._handlers.get(descriptor)
            if handler is not None:
                handler()

    def close(self) -> None:
        self._epoll.close()
