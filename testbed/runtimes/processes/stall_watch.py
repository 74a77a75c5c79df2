"""Ends a run in which nothing happens any more, and nothing will.

Takes the run's context and what else knows of anything under way, gives nothing; looks at the nodes' processes and the
engine's counters. Silence alone proves nothing: a model may be large, or a step long. So a node that computes, or an
engine that carries data, is news; so is a pause, something that is still to be undone, and an event still to come. The
rules are `control/stall`.
"""

from __future__ import annotations

import asyncio

from testbed.control.stall import CarriedContent, EventsToCome
from testbed.plan.model import RunPlan
from testbed.runtimes.processes.context import RunContext
from testbed.runtimes.processes.injections import Injections
from testbed.runtimes.processes.node_actions import NodeActions

_EVERY_S = 5.0
"""Between two looks, in real time."""
_BUSY_S = 0.25
"""Of a processor's time between two looks: a node that only waits takes far less."""


class StallWatch:
    """For use inside a running event loop."""

    def __init__(self, context: RunContext, actions: NodeActions, injections: Injections) -> None:
        self._nodes = context.nodes
        self._plan = context.plan
        self._control = context.control
        self._engine = context.engine
        self._actions = actions
        self._injections = injections
        self._busy_s: dict[tuple[int, int | None], float] = {}
        self._carried = CarriedContent(context.plan.time_scale)
        self._round_s: float | None = None
        self._events = EventsToCome(iter(context.timeline))

    async def watch(self) -> None:
        """Until the run ends, by itself or by this."""
        while not self._control.is_ending:
            await asyncio.sleep(_EVERY_S)
            if await self._is_stalled() and not self._control.is_ending:
                self._control.waits_in_vain()

    async def _is_stalled(self) -> bool:
        control, inactivity = self._control, self._control.inactivity
        computes, carries = self._computes(), await self._carries()
        something_comes = self._events.may_help(control.now(), inactivity.recorded_at)
        if computes or carries or something_comes or self._actions.paused or self._injections.is_waiting:
            inactivity.news(control.now())
        if not control.nodes.working:
            return False  # how soon processes end is another matter
        patience_s = self._plan.experiment.missing.after_s
        if inactivity.lasts_s(control.now()) < inactivity.limit_s(patience_s, 0.0):
            return False
        return inactivity.lasts_s(control.now()) >= inactivity.limit_s(patience_s, await self._planned_round_s())

    def _computes(self) -> bool:
        """Whether any node's process has done anything to speak of since the last look."""
        known = self._control.nodes
        busy = {(rank, known.pid_of(rank)): self._nodes.busy_s(rank) for rank in known.living}
        before, self._busy_s = self._busy_s, busy
        return any(now_s - before.get(life, now_s) > _BUSY_S for life, now_s in busy.items())

    async def _carries(self) -> bool:
        """Whether the engine has brought anything to any node since the last look."""
        status = await self._engine.look()
        return status is not None and self._carried.is_more(status.packets, status.bytes)

    async def _planned_round_s(self) -> float:
        """How long a round takes as far as the plan tells; worked out only where it is asked for."""
        if self._round_s is None:
            self._round_s = await asyncio.to_thread(_round_s, self._plan)
        return self._round_s


def _round_s(plan: RunPlan) -> float:
    """What it takes is loaded only here: few runs ever get that far, and all would start later for it."""
    from testbed.plan.estimate import estimate

    return estimate(plan).round_s or 0.0
