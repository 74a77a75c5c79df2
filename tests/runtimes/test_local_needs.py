"""What a machine has too little of is refused, and what may be too little is told."""

from __future__ import annotations

import pytest

from testbed.runtimes import needs
from testbed.runtimes.machine_speed import StepTimes
from testbed.runtimes.needs import needs_of, step_need
from tests.runtimes.local_runs import locally
from tests.runtimes.sim_runs import plan_of, star


@pytest.mark.parametrize(("there_gib", "is_short"), [(0.53, True), (0.6, False)])
def test_memory_for_all_nodes_must_be_there(there_gib: float, is_short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four nodes of 22 MB beside 500 MB for everybody are 0.55 GiB, and their models are small."""
    monkeypatch.setattr(needs, "available_bytes", lambda: int(there_gib * 2**30))
    (memory,) = (each for each in needs_of(locally(plan_of(star(4)))) if each.what == "memory")
    assert memory.is_short is is_short


@pytest.mark.parametrize(
    ("least", "sustained", "is_short", "is_tight"),
    [(10.0, 15.0, False, False), (10.0, 25.0, False, True), (25.0, 30.0, True, True)],
)
def test_a_step_that_nobody_could_keep_up_with_is_refused(
    least: float, sustained: float, is_short: bool, is_tight: bool
) -> None:
    """A step of 20 ms; slowed down twice, of 40."""
    plan = locally(plan_of(star(4)))
    assert plan.ms_per_step == 20.0
    need = step_need(plan, StepTimes(least, sustained))
    assert (need.is_short, need.is_tight) == (is_short, is_tight)
    slowly = step_need(plan.model_copy(update={"time_scale": 2.0}), StepTimes(least, sustained))
    assert not slowly.is_short
    assert not slowly.is_tight
