"""SWIFT in whole runs: crashes, rejoins and ends, with the events of a topology."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.errors import InvalidInput
from testbed.plan.files import split
from testbed.plan.model import RunPlan
from testbed.records import End, Evaluation, Round, Start
from testbed.rundir import RunDirectory
from tests.runtimes.sim_runs import plan_of, records, run, star
from tests.runtimes.test_sim import of_type

NODES = tuple(f"node.{rank}" for rank in range(4))
ALGORITHMS: dict[str, dict[str, Any]] = {
    "swift": {"algorithm": {"name": "swift"}, "overlay": {"kind": "ring"}},
    "without-memory": {"algorithm": {"name": "swift", "memory": False}, "overlay": {"kind": "ring"}},
    "swift-random": {"algorithm": {"name": "swift-random"}},
}


def plan(name: str, events: str = "", **more: Any) -> RunPlan:
    chosen = {"missing": {"after": "2s", "then": "wait"}, "stop": {"rounds": 40}, "evaluation": {"mode": "none"}}
    return plan_of(star(4, events), **{**chosen, **ALGORITHMS[name], **more})


def crash(at_s: float, rank: int, back_s: float | None = None) -> str:
    back = "" if back_s is None else f", rejoin: {back_s}s"
    return f"  - {{at: {at_s}s, node: node.{rank}, do: crash{back}}}\n"


def last_end(directory: RunDirectory, name: str) -> End:
    end: End = of_type(records(directory, name), End)[-1]
    return end


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_crash_delays_no_other_node(name: str, tmp_path: Path) -> None:
    """Forty rounds of 40 ms; those that have something for the dead one stay for the timeout, and no longer."""
    directory, outcome = run(plan(name, crash(0.5, 1)), tmp_path)
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ()), "a death as planned counts"
    for each in ("node.0", "node.2", "node.3"):
        assert of_type(records(directory, each), Round)[-1].t == pytest.approx(1.6, abs=1e-6)
        assert last_end(directory, each).t < 1.6 + 2 + 0.2
        assert (last_end(directory, each).t > 1.8) == (each != "node.3" or name == "swift-random")


@pytest.mark.parametrize("rejoin", ["fresh", "last"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_node_that_comes_back_does_its_rounds_and_averages_again(name: str, rejoin: str, tmp_path: Path) -> None:
    directory, outcome = run(plan(name, crash(0.5, 1, 0.4), rejoin=rejoin), tmp_path)
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ())
    starts = of_type(records(directory, "node.1"), Start)
    assert [each.rejoin for each in starts] == [None, rejoin]
    second = [each for each in of_type(records(directory, "node.1"), Round) if each.t > 0.9]
    assert [each.round for each in second] == list(range(starts[1].round, 40))
    assert sum(each.aggregated for each in second) >= len(second)
    # Its neighbours take its models, though they are of earlier iterations than those of its first life.
    for each in ("node.0", "node.2"):
        heard = [one for one in of_type(records(directory, each), Round) if one.t > 1.0]
        assert sum(one.aggregated for one in heard) > len(heard) or name == "swift-random"
        assert last_end(directory, each).t < 3.0


@pytest.mark.parametrize("name", ["swift", "without-memory"])
def test_a_node_that_comes_back_when_others_are_done_finds_their_final_models(name: str, tmp_path: Path) -> None:
    """Its two neighbours are done when it returns, but node 3, which is theirs as well, is slow: there is work left."""
    missing, slow = {"after": "20s", "then": "wait"}, {"factors": [{"nodes": "node.3", "factor": 5}]}
    directory, outcome = run(plan(name, crash(1.5, 1, 2.0), missing=missing, rejoin="last", compute=slow), tmp_path)
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ())
    second = [each for each in of_type(records(directory, "node.1"), Round) if each.t > 3]
    assert len(second) > 10
    assert of_type(records(directory, "node.0"), Round)[-1].t < 2
    assert [each.aggregated for each in second[2:]] == [2] * (len(second) - 2)
    slowest = of_type(records(directory, "node.3"), Round)[-1].t
    assert slowest > second[-1].t
    assert max(last_end(directory, each).t for each in NODES) < slowest + 0.2, "all are released when it is done"


def test_it_learns_though_half_of_the_nodes_are_slow(tmp_path: Path) -> None:
    slow = {"factors": [{"nodes": ["node.0", "node.1"], "factor": 5}]}
    accuracy = {}
    for name in ALGORITHMS:
        (tmp_path / name).mkdir()
        settings: dict[str, Any] = {"stop": {"time": "12s"}, "evaluation": {"every": 5}, "compute": slow}
        directory, outcome = run(plan(name, **settings), tmp_path / name)
        assert (outcome.reason, outcome.failures) == ("time", ())
        last = [of_type(records(directory, each), Evaluation)[-1].accuracy for each in NODES]
        accuracy[name] = sum(each or 0.0 for each in last) / 4
    assert min(accuracy.values()) > 0.5, accuracy


def test_a_run_is_the_same_again_in_any_order_of_nodes(tmp_path: Path) -> None:
    for name in ALGORITHMS:
        texts = []
        for shuffle in (None, 1, 2):
            folder = tmp_path / f"{name}-{shuffle}"
            folder.mkdir()
            directory, _ = run(plan(name, crash(0.5, 1, 0.4)), folder, shuffle=shuffle)
            texts.append([directory.node(each).journal.read_bytes() for each in NODES])
        assert texts[0] == texts[1] == texts[2]


def test_an_overlay_that_changes_is_refused_before_the_run() -> None:
    with pytest.raises(InvalidInput) as caught:
        plan("swift", overlay={"kind": "regular", "degree": 2, "dynamic": True})
    assert "others in every round" in str(caught.value.findings[0])


def test_only_nodes_that_need_the_whole_overlay_have_it() -> None:
    for name, table in (("swift", ((1, 3), (0, 2), (1, 3), (0, 2))), ("swift-random", None)):
        assert {each.overlay.neighbours for each in split(plan(name))} == {table}


def test_models_of_a_second_life_say_so(tmp_path: Path) -> None:
    """The field that orders lives costs nothing in runs without a crash."""
    sizes: dict[str, list[int]] = {}
    for name, events in (("undisturbed", ""), ("crash", crash(0.5, 1, 0.4))):
        (tmp_path / name).mkdir()
        directory, _ = run(plan("swift", events), tmp_path / name)
        rounds = of_type(records(directory, "node.1"), Round)
        sizes[name] = [each.sent.metadata for each in rounds if each.t > 1.3]
    assert sizes["undisturbed"]
    assert max(sizes["undisturbed"]) < min(sizes["crash"])
