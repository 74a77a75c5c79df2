"""What the fabric waits for: descriptors, and who acts when one is readable.

Takes descriptors, gives those that are ready; touches an epoll of its own.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator

from testbed.engines.fabric.ports import Port

_MOST_EVENTS = 64
"""Handled before what is due is written."""


class Waiting:
    """Devices of nodes on the one side, everything else on the other: nodes are many and their turn comes often."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._ports: dict[int, Port] = {}
        self._handlers: dict[int, Callable[[], None]] = {}

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

    def ready_ports(self, timeout_s: float) -> Iterator[Port]:
        """The devices that have something to read; acts on everything else that is ready."""
        for descriptor, _ in self._epoll.poll(timeout_s, _MOST_EVENTS):
            port = self._ports.get(descriptor)
            if port is not None:
                yield port
                continue
            handler = self._handlers.get(descriptor)
            if handler is not None:
                handler()

    def close(self) -> None:
        self._epoll.close()
