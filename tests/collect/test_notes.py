"""What a run used in place of what its experiment asks for is told with its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.collect.grouping import settings_of
from testbed.collect.run import collect_run
from testbed.collect.summary import summarise
from tests.collect.runs import plan, two_nodes

STEP = "a local step took 190 ms instead of 20 ms: the machine could not train faster"
RENO = "TCP's congestion control was reno instead of cubic: time scale 4"


def under(congestion: str) -> dict[str, object]:
    experiment = plan(2)["experiment"]
    assert isinstance(experiment, dict)
    return experiment | {"network": {"congestion": congestion}}


@pytest.mark.parametrize(
    ("used_ms", "congestion", "notes"),
    [(20.0, "cubic", ()), (190.0, "cubic", (STEP,)), (20.0, "reno", (RENO,)), (190.0, "reno", (STEP, RENO))],
)
def test_a_longer_step_and_another_congestion_control_are_told(
    used_ms: float, congestion: str, notes: tuple[str, ...], tmp_path: Path
) -> None:
    asked_for = {"ms_per_step": 20.0, "congestion": "cubic"}
    run = two_nodes(tmp_path, asked=asked_for, ms_per_step=used_ms, time_scale=4.0, experiment=under(congestion))
    summary = summarise(collect_run(run))
    assert (summary.problems, summary.complete) == (notes, True)


def test_the_plan_of_a_real_run_in_virtual_time_keeps_what_that_one_used(tmp_path: Path) -> None:
    asked_for = {"ms_per_step": 20.0, "congestion": "cubic"}
    run = two_nodes(tmp_path, asked=asked_for, ms_per_step=20.0, runtime="sim", experiment=under("reno"))
    (note,) = summarise(collect_run(run)).problems
    assert note == "TCP's congestion control was reno instead of cubic: as in the real run that this plan is of"


def test_of_plans_that_do_not_say_what_was_asked_for_nothing_is_told(tmp_path: Path) -> None:
    """Those of older versions."""
    run = two_nodes(tmp_path, ms_per_step=190.0, experiment=under("reno"))
    assert summarise(collect_run(run)).problems == ()


def test_runs_with_another_congestion_control_are_no_repetitions(tmp_path: Path) -> None:
    cubic, reno = (two_nodes(tmp_path, name, experiment=under(name)) for name in ("cubic", "reno"))
    assert settings_of(cubic).key != settings_of(reno).key


@pytest.mark.parametrize(("carried", "is_told"), [(406, False), (405, True)])
def test_who_claims_more_than_the_fabric_carried_is_named(carried: int, is_told: bool, tmp_path: Path) -> None:
    """A journal is what a learner says of itself; it had received 406 bytes, it says."""
    run = two_nodes(tmp_path, runtime="local")
    (run.path / "engine").mkdir()
    nodes = [{"name": "n.0", "bytes_out": carried}, {"name": "n.1", "bytes_out": 10_000}]
    (run.path / "engine" / "health.json").write_text(json.dumps({"wire_sent": 900, "nodes": nodes}))
    problems = summarise(collect_run(run)).problems
    told = [each for each in problems if each.startswith("n.0 claims to have received 406 bytes, and the fabric")]
    assert len(told) == is_told
    assert len(problems) == is_told
