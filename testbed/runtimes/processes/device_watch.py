"""Ends a run in which a node lives whose device the fabric has lost: nothing would reach it any more.

Takes control, the engine and the nodes, gives nothing. A device goes with its process, and the fabric may notice before
anybody has told of the death; so whoever has lost one is given a while to be dead.
"""

from __future__ import annotations

import asyncio
import time

from testbed.control.control import Control
from testbed.plan.model import RunPlan
from testbed.runtimes.processes.backend import AllNodes
from testbed.runtimes.processes.engine import Engine

_EVERY_S = 0.5
_PATIENCE_S = 3.0
"""From when a node is first seen alive without its device."""


class DeviceWatch:
    """For use inside a running event loop."""

    def __init__(self, plan: RunPlan, control: Control, engine: Engine, nodes: AllNodes) -> None:
        self._plan = plan
        self._control = control
        self._engine = engine
        self._nodes = nodes
        self._since_s: dict[tuple[int, int], float] = {}
        """By rank and life."""

    async def watch(self) -> None:
        """Until the run ends, by itself or by this."""
        while not self._control.is_ending:
            await asyncio.sleep(_EVERY_S)
            now_s = time.monotonic()
            bereft = {life: self._since_s.get(life, now_s) for life in self._bereft()}
            self._since_s = bereft
            lost = [rank for (rank, _), since_s in bereft.items() if now_s - since_s >= _PATIENCE_S]
            if lost and not self._control.is_ending:
                self._control.break_down(self._words(lost))

    def _bereft(self) -> list[tuple[int, int]]:
        """Lives that go on without a device."""
        control = self._control
        return [
            (rank, life)
            for rank in sorted(self._engine.bereft)
            if (life := control.pid_of(rank)) is not None
            and not control.has_ended(rank)
            and not self._nodes.is_gone(rank)
        ]

    def _words(self, lost: list[int]) -> str:
        name = self._plan.nodes[lost[0]].name
        others = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        return f"{name}{others} is cut off though it lives: {self._engine.bereft[lost[0]]}"
