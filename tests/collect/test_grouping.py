"""Which runs are repetitions of one another, and what their mean is worth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy import stats

from testbed.collect.grouping import Estimate, estimate, group_key, group_runs
from testbed.collect.run import collect_run
from testbed.collect.summary import summarise
from tests.collect.runs import plan, two_nodes, write


def key(folder: Path, **changes: object) -> str:
    return group_key(write(folder, {}, plan(2, **changes), run_id=f"run{len(list(folder.iterdir()))}"))


EXPERIMENT = {"algorithm": {"name": "dpsgd"}, "overlay": {"kind": "ring"}, "seed": 1}
NODES = [{"name": f"n.{rank}", "rank": rank, "learner": rank} for rank in range(2)]


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "other"},
        {"seed": 2},
        {"created": "later"},
        {"inputs": {"experiment": "def"}},
        {"overlay": {"edges": [[1, 0]]}},
        {"experiment": EXPERIMENT | {"seed": 2}},
        {"samples": [3, 4]},
        {"nodes": [each | {"pace": [[0, 2]]} for each in NODES]},
        {"experiment": dict(reversed(EXPERIMENT.items()))},
    ],
)
def test_repetitions(tmp_path: Path, changes: dict[str, object]) -> None:
    assert key(tmp_path) == key(tmp_path, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"runtime": "local"},
        {"topology": {"links": [1, 3]}},
        {"experiment": EXPERIMENT | {"overlay": {"kind": "full"}}},
        {"experiment": EXPERIMENT | {"rounds": 7}},
        {"versions": {"torch": "2"}},
        {"nodes": NODES[:1]},
    ],
)
def test_not_repetitions(tmp_path: Path, changes: dict[str, object]) -> None:
    assert key(tmp_path) != key(tmp_path, **changes)


def test_an_overlay_that_the_experiment_does_not_tell_counts(tmp_path: Path) -> None:
    for experiment in ({"algorithm": {"name": "dpsgd"}}, {"overlay": {"kind": "file"}}):
        one = key(tmp_path, experiment=experiment)
        assert one != key(tmp_path, experiment=experiment, overlay={"edges": []})


def test_runs_without_a_readable_plan_are_alone(tmp_path: Path) -> None:
    one, other = write(tmp_path, {}, run_id="a"), write(tmp_path, {}, run_id="b")
    assert group_key(one) != group_key(other)
    one.plan.write_text("[1")
    other.plan.write_text("[1")
    assert group_key(one) != group_key(other)


def test_an_interval_by_students_t() -> None:
    # The 97.5 % quantile for two degrees of freedom, from any table: 4.303.
    found = estimate([1.0, 2.0, 3.0, None])
    half = 4.302653 / 3**0.5
    assert (found.n, found.mean, found.std) == (3, 2.0, 1.0)
    assert [found.low, found.high] == pytest.approx([2 - half, 2 + half], rel=1e-6)
    values = [0.71, 0.74, 0.69, 0.73, 0.70]
    expected = stats.t.interval(0.95, 4, loc=sum(values) / 5, scale=stats.sem(values))
    found = estimate(values)
    assert [found.low, found.high] == pytest.approx(list(expected))


def test_too_few_for_an_interval() -> None:
    assert estimate([]) == Estimate(0)
    assert estimate([None]) == Estimate(0)
    assert estimate([0.5]) == Estimate(1, 0.5)
    assert estimate([0.5, 0.5]) == Estimate(2, 0.5, 0.0, 0.5, 0.5)


def test_a_group(tmp_path: Path) -> None:
    runs = [two_nodes(tmp_path, f"run{seed}", seed=seed) for seed in (1, 2)]
    other = two_nodes(tmp_path, "other", seed=3, runtime="local")
    runs[1].node("n.1").journal.unlink()
    summaries = [(group_key(run), summarise(collect_run(run), 0.8)) for run in (runs[0], other, runs[1])]
    group, alone = group_runs(summaries)
    assert (group.runs, group.seeds, group.complete) == (("run1", "run2"), (1, 2), 1)
    assert group.accuracy.mean == pytest.approx((0.8 + 0.7) / 2)
    assert (group.wall_clock_s.mean, group.wall_clock_s.n) == (3.5, 2)
    assert (group.time_to_target_s.n, group.time_to_target_s.mean) == (1, 4.5)
    assert group.sent_bytes.mean == (324 + 220) / 2
    assert (alone.runs, alone.accuracy.n, alone.accuracy.low) == (("other",), 1, None)
    assert json.loads((runs[0].plan).read_text())["seed"] == 1
