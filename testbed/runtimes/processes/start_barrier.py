"""Ends a run that will never begin, because nodes do not get ready.

Takes control and nodes, gives nothing; looks at the nodes' processor time. All that are not ready are looked at
together: to get warm they take turns, and whoever waits for its turn does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial

from testbed.control.control import Control
from testbed.plan.model import RunPlan
from testbed.runtimes.processes import waited
from testbed.runtimes.processes.backend import Nodes
from testbed.runtimes.processes.waited import Waited
from testbed.runtimes.tracking.process_records import CONNECTED_S

_LOOK_S = 1.0
_COMING_EACH_S = 5.0
"""Whoever starts a node sees to it that it comes: that has its own limit, which is less than this for every node."""


class BarrierWatch:
    """For use inside a running event loop."""

    def __init__(self, plan: RunPlan, control: Control, nodes: Nodes) -> None:
        self._control = control
        self._nodes = nodes
        self._connected_s = CONNECTED_S * plan.time_scale

    async def watch(self, ranks: Collection[int]) -> None:
        """Until these are ready, or the run ends, by itself or by this."""
        before: tuple[list[int], bool] | None = None
        while not self._control.is_ending and (late := self._control.not_ready(ranks)):
            is_coming = any(self._control.is_expected(rank) for rank in late)
            if (late, is_coming) != before:
                before = late, is_coming
                coming_s = _COMING_EACH_S * len(ranks) if is_coming else 0.0
                # Who waits for connections, when it is ready otherwise, does nothing.
                wait = Waited(partial(self._busy_s, late), max(waited.IDLE_S, 2 * self._connected_s) + coming_s)
            if (why := wait.look()) is not None:
                self._control.never_begin(late, f"it was to get ready, and {why}")
                return
            await asyncio.sleep(_LOOK_S)

    def _busy_s(self, ranks: Collection[int]) -> float:
        return sum(self._nodes.busy_s(rank) for rank in ranks)
