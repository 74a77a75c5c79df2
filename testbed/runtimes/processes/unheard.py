"""Names nodes that have not been heard of for a while: paused, stopped by somebody, or busy with what takes long.

Takes control and what was done to nodes, gives words; writes to control's log. Every node says something each second or
two, whatever its algorithm does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.plan.model import RunPlan
from testbed.records import Event
from testbed.runtimes.processes.node_actions import NodeActions

AFTER_S = 5.0
"""Of real time."""
_LOOK_S = 1.0
_MOST_NAMED = 5


class UnheardWatch:
    """For use inside a running event loop."""

    def __init__(
        self, plan: RunPlan, control: Control, log: ControlLog, actions: NodeActions, say: Callable[[str], None]
    ) -> None:
        """`say` is told of every node once, each time that it falls silent."""
        self._names = [node.name for node in plan.nodes]
        self._control = control
        self._log = log
        self._actions = actions
        self._say = say

    async def watch(self) -> None:
        """Until the run ends."""
        known: set[int] = set()
        while not self._control.is_ending:
            await asyncio.sleep(_LOOK_S)
            silent = self._control.unheard(AFTER_S)
            new = [rank for rank in silent if rank not in known]
            known = set(silent)
            for rank in new:
                detail = f"nothing heard of it for {silent[rank]:.0f} s{self._why(rank)}"
                self._log.write(Event(self._control.now(), "unheard", detail, node=self._names[rank]))
            if new:
                self._say(words_of(self._told(new)))

    def told(self) -> tuple[str, ...]:
        """The nodes that are silent now, each with why if that is known."""
        return self._told(list(self._control.unheard(AFTER_S)))

    def _told(self, ranks: list[int]) -> tuple[str, ...]:
        return tuple(f"{self._names[rank]}{self._why(rank)}" for rank in ranks)

    def _why(self, rank: int) -> str:
        return " (paused)" if rank in self._actions.paused else ""


def words_of(nodes: tuple[str, ...]) -> str:
    """One line for them all."""
    more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
    return f"nothing heard for {AFTER_S:g} s of {', '.join(nodes[:_MOST_NAMED])}{more}"
