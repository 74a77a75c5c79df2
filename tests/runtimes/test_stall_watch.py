"""What is under way, or still to come, is not silence."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.control.stall import Inactivity
from testbed.runtimes.processes.engine import NoEngine
from testbed.runtimes.processes.stall_watch import StallWatch
from tests.runtimes.contexts import context_of
from tests.runtimes.sim_runs import plan_of, star

LONG_S = 10_000.0


def is_stalled(*, paused: bool = False, waiting: bool = False, ended: bool = False, events: str = "") -> bool:
    """Nothing has happened for hours."""
    lives: Any = SimpleNamespace(living=[0], working=[] if ended else [0], pid_of=lambda _: None)
    control: Any = SimpleNamespace(inactivity=Inactivity(), now=lambda: LONG_S, nodes=lives)
    actions: Any = SimpleNamespace(paused={0: 1.0} if paused else {})
    injections: Any = SimpleNamespace(is_waiting=waiting)
    log: Any = None
    nodes: Any = SimpleNamespace(busy_s=lambda _: 0.0)
    watch = StallWatch(context_of(plan_of(star(2, events)), control, log, NoEngine(), nodes), actions, injections)
    watch._round_s = 1.0
    return asyncio.run(watch._is_stalled())


def test_nothing_is_under_way() -> None:
    assert is_stalled()


@pytest.mark.parametrize(
    "comes",
    [
        {"paused": True},
        {"waiting": True},
        {"ended": True},
        {"events": f"  - {{at: {LONG_S + 1:g}s, node: node.1, do: crash}}\n"},
    ],
    ids=["a node is paused", "something is to be undone", "all have ended", "an event is to come"],
)
def test_something_is(comes: dict[str, Any]) -> None:
    assert not is_stalled(**comes)
