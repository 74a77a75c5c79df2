"""The line to copy after a run that this machine could not keep up with."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from testbed.cli.run_again import run_again
from testbed.plan.model import RunPlan
from tests.runtimes.local_runs import locally
from tests.runtimes.sim_runs import plan_of, star

PLAN = locally(plan_of(star(2), compute={"ms_per_step": 20}))
"""Two steps a round."""
COMPUTING = {"why": ["computing"], "computing": {"added_share": 0.03, "worst_late_s": 0.045}}
NETWORK = {"why": ["packets"], "computing": {"added_share": 0.001, "worst_late_s": 0.045}}
BOTH = {"why": ["computing", "packets"], "computing": {"added_share": 0.03, "worst_late_s": 0.045}}


def command(words: list[str], plan: RunPlan, summary: Mapping[str, object]) -> str | None:
    again = run_again(words, plan, summary)
    return None if again is None else again.command


def meaning(plan: RunPlan, summary: Mapping[str, object]) -> str:
    again = run_again(["deploy", "t.xml"], plan, summary)
    assert again is not None
    return again.meaning


def test_what_changes_the_experiment_says_so() -> None:
    scaled = PLAN.model_copy(update={"time_scale": 2.0})
    assert meaning(PLAN, COMPUTING).startswith("another experiment, with longer steps")
    assert meaning(PLAN, NETWORK).startswith("the same experiment in more real time, but with TCP reno")
    assert meaning(scaled, NETWORK) == "the same experiment in more real time"
    measured = locally(plan_of(star(2), compute={"mode": "measured"}))
    assert meaning(measured, NETWORK).startswith("another experiment, with a faster machine")


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ("deploy t.xml", "testbed deploy t.xml --set compute.ms_per_step=43"),
        ("deploy t.xml --run-id first -q", "testbed deploy t.xml -q --set compute.ms_per_step=43"),
        ("deploy t.xml --run-id=first", "testbed deploy t.xml --set compute.ms_per_step=43"),
        ("deploy t.xml --run-id first --overwrite", "testbed deploy t.xml --set compute.ms_per_step=43"),
        ("deploy --set compute.ms_per_step=20 t.xml", "testbed deploy t.xml --set compute.ms_per_step=43"),
        ("deploy --set=compute.ms_per_step=20 t.xml", "testbed deploy t.xml --set compute.ms_per_step=43"),
        ("deploy t.xml --set training.lr=1", "testbed deploy t.xml --set training.lr=1 --set compute.ms_per_step=43"),
        ("deploy t.xml --time-scale 1", "testbed deploy t.xml --time-scale 1 --set compute.ms_per_step=43"),
        ("deploy --plan p.json", None),
        ("deploy --plan=p.json", None),
    ],
)
def test_a_step_is_as_long_as_the_latest_one_took(words: str, again: str | None) -> None:
    assert command(words.split(), PLAN, COMPUTING) == again


def test_a_step_that_was_only_a_little_late_is_a_quarter_longer() -> None:
    little = {"why": ["computing"], "computing": {"added_share": 0.03, "worst_late_s": 0.001}}
    assert str(command(["deploy"], PLAN, little)).endswith("--set compute.ms_per_step=25")


def test_the_scale_of_the_run_stays_where_its_step_is_made_longer() -> None:
    scaled = PLAN.model_copy(update={"time_scale": 2.0})
    said = command(["deploy", "t.xml", "--time-scale", "auto"], scaled, COMPUTING)
    assert said == "testbed deploy t.xml --time-scale 2 --set compute.ms_per_step=43"


@pytest.mark.parametrize("summary", [NETWORK, BOTH])
def test_where_the_network_was_late_all_goes_slower(summary: dict[str, object]) -> None:
    words = ["deploy", "t.xml", "--set", "compute.ms_per_step=20", "--time-scale", "1"]
    assert command(words, PLAN, summary) == "testbed deploy t.xml --set compute.ms_per_step=20 --time-scale 2"


def test_beyond_what_connections_bear_there_is_nothing_to_copy() -> None:
    slow = PLAN.model_copy(update={"time_scale": 1000.0})
    assert run_again(["deploy", "t.xml"], slow, NETWORK) is None


def test_names_with_spaces_can_be_copied() -> None:
    assert str(command(["deploy", "my file.xml"], PLAN, NETWORK)).startswith("testbed deploy 'my file.xml' ")
