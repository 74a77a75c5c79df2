"""Which runs are repetitions of one another, and what their mean is worth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy import stats

from testbed.collect.grouping import MeanEstimate, RunGroup, estimate, group_runs, settings_of
from testbed.collect.run import collect_run
from testbed.collect.summary import summarise
from testbed.collect.text_tables import group_table
from tests.collect.runs import plan, two_nodes, write


def key(folder: Path, **changes: object) -> str:
    return settings_of(write(folder, {}, plan(2, **changes), run_id=f"run{len(list(folder.iterdir()))}")).key


EXPERIMENT = {"algorithm": {"name": "dpsgd"}, "overlay": {"kind": "ring"}, "seed": 1}
INPUTS = {"topologies/wan.xml": "abc", "experiment.yaml": "abc"}
NODES = [{"name": f"n.{rank}", "rank": rank, "learner": rank} for rank in range(2)]


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "other"},
        {"seed": 2},
        {"created": "later"},
        {"inputs": INPUTS | {"experiment.yaml": "def"}},
        {"inputs": {"topologies/wan.xml": "abc", "another.yml": "abc"}},
        {"overlay": {"edges": [[1, 0]]}},
        {"experiment": EXPERIMENT | {"seed": 2}},
        {"samples": [3, 4]},
        {"runtime_facts": {"is_virtual": False, "is_judged": True}},
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
        {"inputs": INPUTS | {"topologies/wan.xml": "def"}},
        {"inputs": INPUTS | {"mine.py": "abc"}},
    ],
)
def test_not_repetitions(tmp_path: Path, changes: dict[str, object]) -> None:
    assert key(tmp_path) != key(tmp_path, **changes)


def test_the_data_plane_that_carried_a_run_counts(tmp_path: Path) -> None:
    """As the fabric says, or else as planned: in a container the fabric chooses, and a killed run says nothing."""
    planned = [{"asked": "auto", "used": used} for used in ("native", "python", None)]
    runs = [two_nodes(tmp_path, f"run{at}", runtime="local", data_plane=each) for at, each in enumerate(planned)]
    virtual = two_nodes(tmp_path, "virtual")
    (runs[2].path / "engine").mkdir()
    (runs[2].path / "engine" / "health.json").write_text('{"data_plane": "python"}')
    summaries = [summarise(collect_run(run)) for run in (*runs, virtual)]
    found = [
        (settings_of(run, (), each.data_plane), each) for run, each in zip((*runs, virtual), summaries, strict=True)
    ]
    compiled, python, _virtual = group_runs(found)
    assert (compiled.runs, python.left_out, python.runs) == (("run0",), ("run1",), ("run2",))
    assert [each.differs for each in group_runs(found[:3])] == [{"data_plane": "native"}, {"data_plane": "python"}]
    assert [each.differs for each in group_runs(found[1:])] == [{"runtime": "local"}, {"runtime": "sim"}]


def test_an_overlay_that_the_experiment_does_not_tell_counts(tmp_path: Path) -> None:
    for experiment in ({"algorithm": {"name": "dpsgd"}}, {"overlay": {"kind": "file"}}):
        one = key(tmp_path, experiment=experiment)
        assert one != key(tmp_path, experiment=experiment, overlay={"edges": []})


def test_runs_without_a_readable_plan_are_alone(tmp_path: Path) -> None:
    one, other = write(tmp_path, {}, run_id="a"), write(tmp_path, {}, run_id="b")
    assert settings_of(one) != settings_of(other)
    one.plan.write_text("[1")
    other.plan.write_text("[1")
    assert settings_of(one) != settings_of(other)


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
    assert estimate([]) == MeanEstimate(0)
    assert estimate([None]) == MeanEstimate(0)
    assert estimate([0.5]) == MeanEstimate(1, 0.5)
    assert estimate([0.5, 0.5]) == MeanEstimate(2, 0.5, 0.0, 0.5, 0.5)


def test_a_group(tmp_path: Path) -> None:
    runs = [two_nodes(tmp_path, f"run{seed}", seed=seed) for seed in (1, 2)]
    other = two_nodes(tmp_path, "other", seed=3, runtime="local")
    runs[1].node("n.1").journal.unlink()
    summaries = [(settings_of(run), summarise(collect_run(run), 0.8)) for run in (runs[0], other, runs[1])]
    group, alone = group_runs(summaries)
    assert (group.runs, group.seeds, group.complete) == (("run1", "run2"), (1, 2), 1)
    assert group.accuracy.mean == pytest.approx((0.8 + 0.7) / 2)
    assert (group.wall_clock_s.mean, group.wall_clock_s.n) == (3.25, 2)  # the rounds ended at 4.5 s and at 2 s
    assert group.drained_s.mean == 3.5
    assert (group.time_to_target_s.n, group.time_to_target_s.mean) == (1, 4.5)
    assert group.sent_bytes.mean == (324 + 220) / 2
    assert (alone.runs, alone.accuracy.n, alone.accuracy.low) == (("other",), 1, None)
    assert json.loads((runs[0].plan).read_text())["seed"] == 1


@pytest.mark.parametrize("named", ["code.yaml", "code.yaml:Mine"])
def test_a_file_that_the_experiment_names_counts_whatever_it_is_called(tmp_path: Path, named: str) -> None:
    experiment = EXPERIMENT | {"algorithm": {"name": named}}
    one = key(tmp_path, experiment=experiment, inputs={"code.yaml": "abc"})
    assert one != key(tmp_path, experiment=experiment, inputs={"code.yaml": "def"})


def grouped(folder: Path, *runs: dict[str, object]) -> list[RunGroup]:
    """Whole runs with these changes to the plan, named a, b, c …"""
    made = [two_nodes(folder, chr(ord("a") + at), **changes) for at, changes in enumerate(runs)]
    return group_runs([(settings_of(run), summarise(collect_run(run))) for run in made])


def test_a_seed_counts_once(tmp_path: Path) -> None:
    (group,) = grouped(tmp_path, {"seed": 1}, {"seed": 2}, {"seed": 1})
    assert (group.runs, group.seeds, group.left_out) == (("b", "c"), (2, 1), ("a",))
    assert group.accuracy.n == 2


def test_of_runs_with_one_seed_a_complete_one_counts(tmp_path: Path) -> None:
    runs = [two_nodes(tmp_path, name, seed=1) for name in ("a", "b")]
    runs[1].node("n.0").journal.unlink()
    (group,) = group_runs([(settings_of(run), summarise(collect_run(run))) for run in runs])
    assert (group.runs, group.left_out, group.complete) == (("a",), ("b",), 1)
    assert group.accuracy.low is None


def test_runs_of_unknown_seeds_all_count(tmp_path: Path) -> None:
    (group,) = grouped(tmp_path, {"seed": None}, {"seed": None})
    assert (group.runs, group.left_out) == (("a", "b"), ())


def experiment(lr: float, sharing: str = "full", seed: int = 1, **options: object) -> dict[str, object]:
    return EXPERIMENT | {"training": {"lr": lr}, "sharing": {"name": sharing, "options": options}, "seed": seed}


def test_what_differs_between_groups(tmp_path: Path) -> None:
    first, second, third, fourth = grouped(
        tmp_path,
        {"experiment": experiment(0.1), "parameters": 7},
        {"experiment": experiment(0.2, seed=3), "seed": 3, "parameters": 7},
        {"experiment": experiment(0.1, "topk", fraction=0.5, dense=1), "parameters": 9},
        {"experiment": experiment(0.1, "topk", fraction=0.25, dense=1), "parameters": 9},
    )
    assert first.differs == {"training.lr": "0.1", "sharing.name": "full"}
    assert second.differs == {"training.lr": "0.2", "sharing.name": "full"}
    assert third.differs == {"training.lr": "0.1", "sharing.name": "topk", "sharing.options.fraction": "0.5"}
    assert fourth.differs["sharing.options.fraction"] == "0.25"
    table = group_table([first, second, third], [])
    assert [row[0] for row in table.rows] == ["lr=0.1 sharing=full", "lr=0.2 sharing=full", LAST]
    assert group_table([first], []).columns[:3] == ("algo", "topology", "runs")


LAST = "lr=0.1 sharing=topk fraction=0.5"


def test_code_that_was_edited_between_two_runs(tmp_path: Path) -> None:
    old, new = grouped(
        tmp_path,
        {"inputs": INPUTS | {"mine.py": "a" * 64}},
        {"inputs": INPUTS | {"mine.py": "b" * 64}},
    )
    assert (old.differs, new.differs) == ({"inputs.mine.py": "a" * 8}, {"inputs.mine.py": "b" * 8})


def test_another_topology_is_told_by_its_name(tmp_path: Path) -> None:
    one, other = grouped(
        tmp_path,
        {"experiment": EXPERIMENT | {"topology": "topologies/wan.xml"}},
        {
            "topology_name": "lan",
            "topology": {"links": []},
            "experiment": EXPERIMENT | {"topology": "lan.xml"},
            "inputs": {"lan.xml": "def"},
        },
    )
    assert (one.differs, other.differs) == ({"topology_name": "wan"}, {"topology_name": "lan"})
    contents = grouped(tmp_path / "more", {}, {"topology": {"links": []}})
    assert [list(each.differs) for each in contents] == [["topology.contents"]] * 2


def test_a_run_without_a_plan_does_not_make_everything_differ(tmp_path: Path) -> None:
    runs = [two_nodes(tmp_path, name, seed=1) for name in ("a", "b")]
    runs[1].plan.unlink()
    groups = group_runs([(settings_of(run), summarise(collect_run(run))) for run in runs])
    assert [each.differs for each in groups] == [{}, {}]
    assert [row[0] for row in group_table(groups, []).rows] == ["a", "b"]
