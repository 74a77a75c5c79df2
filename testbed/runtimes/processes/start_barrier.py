"""Gives up processes that do not do what they were asked for: nodes that never get ready for the start barrier.

Takes processor times, gives words when it has been long enough; ends a run that will never begin. All nodes that are
not ready are looked at together: to get warm they take turns, and one that waits for its turn does nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from functools import partial

from testbed.runtimes.processes.context import RunContext
from testbed.runtimes.tracking.process_records import CONNECTED_S

IDLE_S = 120.0
"""A process that has not even used the processor for so long will not do any more what it was asked for. On a machine
that is far too busy every process has a turn within seconds."""
LONGEST_S = 1800.0
"""No process is waited for longer, whatever it computes."""
_LOOK_S = 1.0
_COMING_EACH_S = 5.0
"""What starts a node sees to it that it comes: that has its own limit, which is less than this for every node."""


class HangDetector:
    """Watches processes that were asked for something, from now on."""

    def __init__(self, busy_s: Callable[[], float], idle_s: float | None = None) -> None:
        """`idle_s` where something else than the processor may keep them for longer than `IDLE_S`."""
        self._busy_of = busy_s
        self._limit_s = IDLE_S if idle_s is None else idle_s
        self._since_s = self._idle_since_s = time.monotonic()
        self._busy_s = busy_s()

    def look(self) -> str | None:
        """Why they need not be waited for any more, in words; to be asked now and then."""
        now_s, computed_s = time.monotonic(), self._busy_of()
        if computed_s != self._busy_s:
            self._busy_s, self._idle_since_s = computed_s, now_s
        if now_s - self._idle_since_s >= self._limit_s:
            return f"has done nothing for {self._limit_s:g} s"
        if now_s - self._since_s >= LONGEST_S:
            return f"has not done it within {LONGEST_S:g} s"
        return None


class BarrierWatch:
    """For use inside a running event loop."""

    def __init__(self, context: RunContext) -> None:
        self._control = context.control
        self._nodes = context.nodes
        self._connected_s = CONNECTED_S * context.plan.time_scale

    async def watch(self, ranks: Collection[int]) -> None:
        """Until these are ready, or the run ends, by itself or by this."""
        known = self._control.nodes
        before: tuple[list[int], bool] | None = None
        while not self._control.is_ending and (late := known.not_ready(ranks)):
            is_coming = any(known.is_expected(rank) for rank in late)
            if (late, is_coming) != before:
                before = late, is_coming
                coming_s = _COMING_EACH_S * len(ranks) if is_coming else 0.0
                # A node that waits for connections, when it is ready otherwise, does nothing.
                hang = HangDetector(partial(self._busy_s, late), max(IDLE_S, 2 * self._connected_s) + coming_s)
            if (why := hang.look()) is not None:
                self._control.never_begin(late, f"it was to get ready, and {why}")
                return
            await asyncio.sleep(_LOOK_S)

    def _busy_s(self, ranks: Collection[int]) -> float:
        return sum(self._nodes.busy_s(rank) for rank in ranks)
