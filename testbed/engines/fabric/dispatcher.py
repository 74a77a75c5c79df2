"""What the control plane waits for: descriptors, each with what is done when it is readable.

Takes descriptors and handlers, calls the handlers; touches an epoll of its own. The data plane waits for that epoll's
descriptor along with its devices, so one thread does both.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable


class Dispatcher:
    """Never waits itself."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._resting: dict[int, float] = {}
        """Until when, by descriptor."""

    def fileno(self) -> int:
        """Readable when there is something to handle."""
        return self._epoll.fileno()

    @property
    def next_s(self) -> float:
        """When a descriptor has rested, by the host's clock."""
        return min(self._resting.values(), default=math.inf)

    def add(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, select.EPOLLIN)

    def remove(self, descriptor: int) -> None:
        """To be called before it is closed."""
        self._epoll.unregister(descriptor)
        del self._handlers[descriptor]
        self._resting.pop(descriptor, None)

    def rest(self, descriptor: int, for_s: float) -> None:
        """Its handler is not called for a while, whatever there is to read."""
        self._epoll.modify(descriptor, 0)
        self._resting[descriptor] = time.monotonic() + for_s

    def dispatch(self) -> None:
        """Handles everything that is readable now."""
        if self._resting:
            self._wake(time.monotonic())
        for descriptor, _ in self._epoll.poll(0, max(1, len(self._handlers))):
            handler = self._handlers.get(descriptor)
            if handler is not None:  # or another handler has removed it
                handler()

    def _wake(self, now_s: float) -> None:
        for descriptor, until_s in list(self._resting.items()):
            if now_s >= until_s:
                del self._resting[descriptor]
                self._epoll.modify(descriptor, select.EPOLLIN)

    def close(self) -> None:
        self._epoll.close()
