"""Ends a run in which nothing happens any more, and nothing will.

Takes control and what else knows of anything under way, gives nothing; looks at the nodes' processes and the engine's
counters. Silence alone proves nothing: a model may be large, or a step long. So what computes, or carries data, is not
silent; nor is a run in which somebody is paused, something is still to be undone, or events are still to come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from testbed.control.control import Control
from testbed.network.timeline import Change, timeline
from testbed.plan.model import RunPlan
from testbed.runtimes.processes.backend import Nodes
from testbed.runtimes.processes.engine import Engine
from testbed.runtimes.processes.injections import Injections
from testbed.runtimes.processes.node_actions import NodeActions

_EVERY_S = 5.0
"""Between two looks, in real time."""
_BUSY_S = 0.25
"""Of a processor's time between two looks: a node that only waits takes far less."""
_CARRIED_BYTES = 4096
"""Between two looks at time scale 1: nodes that only wait send hardly anything that arrives."""
_HEADERS_BYTES = 52
"""Of every packet, of IP and of TCP with timestamps: what kernels tell each other of idle connections has no more."""
_MOST_EVENTS = 10
"""So many changes that nobody has answered with a record: the next one will not help either."""


class StallWatch:
    """For use inside a running event loop."""

    def __init__(
        self,
        plan: RunPlan,
        control: Control,
        engine: Engine,
        nodes: Nodes,
        actions: NodeActions,
        injections: Injections,
    ) -> None:
        self._nodes = nodes
        self._plan = plan
        self._control = control
        self._engine = engine
        self._actions = actions
        self._injections = injections
        self._busy_s: dict[tuple[int, int | None], float] = {}
        self._carried = Carried(plan.time_scale)
        self._round_s: float | None = None
        self._events = _Coming(timeline(plan.load_topology(), plan.seed))

    async def watch(self) -> None:
        """Until the run ends, by itself or by this."""
        while not self._control.is_ending:
            await asyncio.sleep(_EVERY_S)
            if await self._is_stalled() and not self._control.is_ending:
                self._control.waits_in_vain()

    async def _is_stalled(self) -> bool:
        control, silence = self._control, self._control.silence
        computes, carries = self._computes(), await self._carries()
        something_comes = self._events.to_come(control.now(), silence.recorded_at)
        if computes or carries or something_comes or self._actions.paused or self._injections.is_waiting:
            silence.news(control.now())
        if all(control.has_ended(rank) for rank in control.living):
            return False  # that is somebody else's affair
        patience_s = self._plan.experiment.missing.after_s
        if silence.lasts_s(control.now()) < silence.limit_s(patience_s, 0.0):
            return False
        return silence.lasts_s(control.now()) >= silence.limit_s(patience_s, await self._planned_round_s())

    def _computes(self) -> bool:
        """Whether any node's process has done anything to speak of since the last look."""
        busy = {(rank, self._control.pid_of(rank)): self._nodes.busy_s(rank) for rank in self._control.living}
        before, self._busy_s = self._busy_s, busy
        return any(now_s - before.get(life, now_s) > _BUSY_S for life, now_s in busy.items())

    async def _carries(self) -> bool:
        """Whether the engine has brought anything to anybody since the last look."""
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


class Carried:
    """What has arrived of messages; every connection's signs of life are of the kernel, and in real time."""

    def __init__(self, time_scale: float) -> None:
        self._least_bytes = _CARRIED_BYTES / time_scale
        self._before = 0

    def is_more(self, packets: int, bytes_: int) -> bool:
        """Whether it is more than at the last look, to speak of; both are counted from the beginning."""
        content = bytes_ - packets * _HEADERS_BYTES
        before, self._before = self._before, content
        return content - before > self._least_bytes


class _Coming:
    """What the topology's events still have in store."""

    def __init__(self, changes: Iterator[Change]) -> None:
        self._changes = changes
        self._next = next(changes, None)
        self._unanswered = 0
        self._answered_at = 0.0

    def to_come(self, now: float, answered_at: float) -> bool:
        """Whether anything is still to come that may help; or has just come."""
        if answered_at > self._answered_at:
            self._answered_at, self._unanswered = answered_at, 0
        came = False
        while self._next is not None and self._next.at_s <= now:
            self._next = next(self._changes, None)
            self._unanswered += 1
            came = True
        return (came or self._next is not None) and self._unanswered < _MOST_EVENTS
