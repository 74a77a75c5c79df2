"""A partition by hand that could not be healed can be healed later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.control.commands import Divide, Reply, Reunite
from testbed.control.control import Control
from testbed.control.log import ControlLog
from testbed.errors import UsageProblem
from testbed.protocol.fabric import Heal, ToFabric
from testbed.runtimes.processes.engine import NoEngine
from testbed.runtimes.processes.injections import Injections
from testbed.runtimes.processes.node_actions import NodeActions
from tests.runtimes.contexts import context_of
from tests.runtimes.sim_runs import plan_of, star
from tests.runtimes.unforked import Unforked


class Denies(NoEngine):
    """The first healing."""

    def __init__(self) -> None:
        self.healed: list[str] = []
        self._has_denied = False

    async def change(self, make: Callable[[int], ToFabric]) -> float:
        message = make(1)
        if isinstance(message, Heal):
            if not self._has_denied:
                self._has_denied = True
                raise UsageProblem("not now")
            self.healed.append(message.name)
        return time.monotonic()


def test_a_partition_whose_healing_is_denied_can_be_healed_later(tmp_path: Path) -> None:
    async def body() -> list[Reply]:
        plan, log, engine = plan_of(star(2)), ControlLog(tmp_path / "events.jsonl"), Denies()
        control = Control(plan, log)
        context = context_of(plan, control, log, engine, Unforked(control.nodes.pid_of, tmp_path))
        actions = NodeActions(context)
        injections = Injections(context, actions, lambda _: None)
        _ = [each async for each in injections.obey(Divide(((0,), (1,))))]
        with pytest.raises(UsageProblem, match="not now"):
            _ = [each async for each in injections.obey(Reunite())]
        said = [each async for each in injections.obey(Reunite("by-hand-1"))]
        assert engine.healed == ["by-hand-1"]
        with pytest.raises(UsageProblem, match="there is no partition"):
            _ = [each async for each in injections.obey(Reunite())]
        injections.close()
        log.close()
        return said

    (done,) = asyncio.run(body())
    assert getattr(done, "what", None) == "heal: by-hand-1"
