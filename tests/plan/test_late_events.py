"""A warning where a run is over before anything happens in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testbed.errors import Finding, Severity
from testbed.experiment.language import Experiment
from testbed.plan.estimate import Estimate, estimate
from testbed.plan.late_events import events_too_late
from testbed.plan.make import make_plan
from testbed.plan.model import RunPlan
from tests.plan.test_make import nodes

EVENTS = "events: [{at: 10s, do: crash, node: a.1}, {at: 40s, do: join, node: a.1}]\n"


def told(cost: Estimate | None = None, events: str = EVENTS, **sections: Any) -> tuple[list[Finding], int]:
    """The warnings, and how often an estimate was asked for."""
    topology = nodes(4, events)
    experiment = Experiment.model_validate({"topology": "t", **sections})
    plan = make_plan(experiment, topology, run_id="r", parameters=2000, nominal_ms_per_step=10)
    asked = []

    def tell() -> Estimate:
        asked.append(plan)
        return cost or estimate(plan)

    return list(events_too_late(plan, topology, tell)), len(asked)


def test_a_run_that_is_over_before_anything_happens_is_warned_of() -> None:
    (found,), asked = told(stop={"rounds": 20})
    assert (found.code, found.severity, asked) == ("events-too-late", Severity.WARNING, 1)
    assert found.message.startswith("the first event happens at 10s, and the run takes about 1.")
    assert found.hint == "say --time 48s without a number of rounds, or a larger compute.ms_per_step"
    assert found.where.line == 4


def test_it_follows_the_estimate() -> None:
    cost = replace(estimate(a_plan()), total_s=9.99)
    assert len(told(cost)[0]) == 1
    assert told(replace(cost, total_s=10.5)) == ([], 1)
    assert told(replace(cost, total_s=None)) == ([], 1)


@pytest.mark.parametrize(
    ("sections", "events"),
    [
        ({}, ""),
        ({"stop": {"time": "11s"}}, EVENTS),
        ({"stop": {"rounds": 240}}, EVENTS),  # 5 steps of 10 ms each
        ({"stop": {"rounds": 20}, "compute": {"ms_per_step": 120}}, EVENTS),
    ],
)
def test_nothing_is_estimated_where_the_steps_alone_last_longer(sections: dict[str, Any], events: str) -> None:
    assert told(events=events, **sections) == ([], 0)


def test_a_time_limit_before_the_first_event_is_told_too() -> None:
    (found,), _ = told(stop={"time": "9s"})
    assert found.message.endswith("the run takes about 9s")
    assert found.hint.startswith("say --time 48s, or")
    assert told(stop={"time": "9s"}, events=EVENTS.replace("10s", "8s")) == ([], 0)


def a_plan() -> RunPlan:
    return make_plan(
        Experiment.model_validate({"topology": "t"}), nodes(4), run_id="r", parameters=2000, nominal_ms_per_step=10
    )
