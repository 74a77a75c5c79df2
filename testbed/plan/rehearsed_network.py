"""The virtual clock and the network of a rehearsal, and the peak rate in it.

Takes a `RunPlan` and messages, tells when they arrive; touches nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from testbed.network.flows import Delivered, Sent, Transfer
from testbed.network.moment import network_before
from testbed.plan.flows_of import flows_of
from testbed.plan.model import RunPlan

Then = Callable[[], None]
SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 0.025, 0.1
_WINDOW_LATENCIES = 4.0
"""A peak is an average over this many latencies, within these limits: on long paths, the queueing of shorter bursts is
a small part of the delay."""
RARE = 0.01
"""Share of all bytes that may be sent at a higher rate; health ignores such a share, too."""
_LOOKS = 4
"""Samples of the sent bytes per window."""
_ROUNDING_S = 1e-9


class Busiest:
    """The peak rate over a window, from samples of the total of sent bytes."""

    def __init__(self, window_s: float = LONGEST_WINDOW_S) -> None:
        self._window_s = window_s
        self._looks: deque[tuple[float, int]] = deque([(0.0, 0)])
        self._found: list[tuple[float, int]] = []
        """Rate over the window before each sample, and the bytes since the previous sample."""

    def is_time(self, now_s: float) -> bool:
        return now_s - self._looks[-1][0] >= self._window_s / _LOOKS

    def look(self, now_s: float, sent_bytes: int) -> None:
        """Adds a sample; times do not decrease."""
        looks = self._looks
        new_bytes = sent_bytes - looks[-1][1]
        looks.append((now_s, sent_bytes))
        since_s = now_s - self._window_s
        while looks[1][0] <= since_s:
            looks.popleft()
        (first_s, first), (second_s, second) = looks[0], looks[1]
        # Interpolated between two samples.
        before = first + (second - first) * max(0.0, since_s - first_s) / max(second_s - first_s, _ROUNDING_S)
        self._found.append(((sent_bytes - before) / self._window_s, new_bytes))

    def bytes_s(self) -> float:
        """The rate that no window exceeded, but for `RARE` of all bytes."""
        left = RARE * sum(size for _, size in self._found)
        for rate, size in sorted(self._found, reverse=True):
            left -= size
            if left <= 0.0:
                return rate
        return 0.0


class RehearsedNetwork:
    """The virtual clock and the network of a rehearsal."""

    def __init__(self, plan: RunPlan, window_s: float) -> None:
        self.flows = flows_of(plan, network_before(plan.load_topology(), plan.expanded_network()))
        self.now_s = 0.0
        self._alarms: list[tuple[float, int, Then]] = []
        self._numbers = count()
        self._under_way: dict[Transfer, tuple[Then, float]] = {}
        self._leaving: dict[Transfer, Then] = {}
        self.transfers_s: list[float] = []
        """Durations of all measured messages."""
        self.busiest = Busiest(window_s)
        self._arrived_bytes = 0

    def after(self, seconds: float, then: Then) -> None:
        heappush(self._alarms, (self.now_s + seconds, next(self._numbers), then))

    def send(
        self, origin: int, dest: int, size: int, then: Then, *, measured: bool = False, on_left: Then | None = None
    ) -> None:
        """Sends a message and calls `then` on arrival; at once if it is to the sender itself.

        `on_left` is called when its last byte has left.
        """
        if origin == dest:
            self.after(0.0, then)
            if on_left is not None:
                self.after(0.0, on_left)
            return
        transfer = self.flows.send(origin, dest, size)
        self._under_way[transfer] = then, self.now_s if measured else math.nan
        if on_left is not None:
            self._leaving[transfer] = on_left

    def run(self, is_over: Callable[[], bool]) -> bool:
        """Runs until `over` is true; False if no event is left before that."""
        while not is_over():
            at_s = min(self.flows.next_s(), self._alarms[0][0] if self._alarms else math.inf)
            if math.isinf(at_s):
                return False
            self.now_s = at_s
            for news in self.flows.advance(at_s):
                if isinstance(news, Sent) and (on_left := self._leaving.pop(news.transfer, None)) is not None:
                    on_left()
                elif isinstance(news, Delivered):
                    then, since_s = self._under_way.pop(news.transfer)
                    self._arrived_bytes += news.transfer.size_bytes
                    if not math.isnan(since_s):
                        self.transfers_s.append(at_s - since_s)
                    then()
            while self._alarms and self._alarms[0][0] <= at_s:
                heappop(self._alarms)[2]()
            if self.busiest.is_time(at_s):
                self._look()
        self._look()
        return True

    def _look(self) -> None:
        on_their_way = sum(map(self.flows.sent_bytes, self._under_way))
        self.busiest.look(self.now_s, self._arrived_bytes + on_their_way)


def window_of(latency_s: float) -> float:
    """The window for peak rates in a network of this latency."""
    return min(LONGEST_WINDOW_S, max(SHORTEST_WINDOW_S, _WINDOW_LATENCIES * latency_s))
