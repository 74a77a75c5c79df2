"""AD-PSGD in whole runs: crashes, rejoins, slow nodes and ends, with the events of a topology."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.errors import InvalidInput
from testbed.plan.model import RunPlan
from testbed.records import Evaluation, Round, Start
from tests.runtimes.sim_runs import plan_of, records, run, star
from tests.runtimes.test_sim import of_type
from tests.runtimes.test_swift import NODES, crash, last_end

SHORT = {"missing": {"after": "2s", "then": "wait"}, "stop": {"rounds": 40}, "evaluation": {"mode": "none"}}
RING = {"overlay": {"kind": "ring"}}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "adpsgd": {"algorithm": {"name": "adpsgd", "timeout": "200ms"}, **RING},
    "free": {"algorithm": {"name": "adpsgd", "exchanges_per_iter": "free", "timeout": "200ms"}, **RING},
    "adpsgd-pushpull": {"algorithm": {"name": "adpsgd-pushpull"}},
}


def planned(name: str, events: str = "", **more: Any) -> RunPlan:
    return plan_of(star(4, events), **{**SHORT, **ALGORITHMS[name], **more})


@pytest.mark.parametrize("rank", [0, 1], ids=["passive", "active"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_crash_delays_no_round_of_others(name: str, rank: int, tmp_path: Path) -> None:
    """Forty rounds of 40 ms; at its end, a node waits for the dead one as long as for any silent peer."""
    directory, outcome = run(planned(name, crash(0.5, rank)), tmp_path)
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ()), "a death as planned counts"
    for each in set(NODES) - {NODES[rank]}:
        assert of_type(records(directory, each), Round)[-1].t == pytest.approx(1.6, abs=1e-6)
        assert last_end(directory, each).t < 1.6 + 2 + 0.3
        if name != "adpsgd-pushpull":
            last_rounds = of_type(records(directory, each), Round)[-10:]
            assert sum(record.aggregated for record in last_rounds) >= 1, "it averages with the others"


@pytest.mark.parametrize("rejoin", ["fresh", "last"])
@pytest.mark.parametrize("rank", [0, 1], ids=["passive", "active"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_node_that_comes_back_does_its_rounds_and_averages_again(
    name: str, rank: int, rejoin: str, tmp_path: Path
) -> None:
    directory, outcome = run(planned(name, crash(0.5, rank, 0.4), rejoin=rejoin), tmp_path)
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ())
    starts = of_type(records(directory, NODES[rank]), Start)
    assert [each.rejoin for each in starts] == [None, rejoin]
    second = [each for each in of_type(records(directory, NODES[rank]), Round) if each.t > 0.9]
    assert [each.round for each in second] == list(range(starts[1].round, 40))
    assert sum(each.aggregated for each in second) >= len(second) // 3
    assert max(last_end(directory, each).t for each in NODES) < 3.0, "no wait for silent peers: there are none"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_is_the_same_again_in_any_order_of_nodes(name: str, tmp_path: Path) -> None:
    texts = []
    for shuffle in (None, 1, 2):
        folder = tmp_path / str(shuffle)
        folder.mkdir()
        directory, _ = run(planned(name, crash(0.5, 1, 0.4)), folder, shuffle=shuffle)
        texts.append([directory.node(each).journal.read_bytes() for each in NODES])
    assert texts[0] == texts[1] == texts[2]


def test_it_learns_though_half_of_the_nodes_are_slow(tmp_path: Path) -> None:
    slow = {"factors": [{"nodes": ["node.0", "node.1"], "factor": 5}]}
    for name in ALGORITHMS:
        (tmp_path / name).mkdir()
        settings: dict[str, Any] = {"stop": {"time": "12s"}, "evaluation": {"every": 5}, "compute": slow}
        directory, outcome = run(planned(name, **settings), tmp_path / name)
        assert (outcome.reason, outcome.failures) == ("time", ())
        last = [of_type(records(directory, each), Evaluation)[-1].accuracy for each in NODES]
        assert sum(each or 0.0 for each in last) / 4 > 0.5, name


def test_nobody_waits_for_peers_that_have_finished(tmp_path: Path) -> None:
    """Rank 0 answers and is slow; the active ones have finished long before, and the run ends with its own work."""
    slow = {"factors": [{"nodes": "node.0", "factor": 5}]}
    directory, _ = run(planned("adpsgd", compute=slow), tmp_path)
    assert last_end(directory, "node.1").t < 2.1
    assert last_end(directory, "node.0").t == pytest.approx(8.0, abs=0.1)


def test_an_overlay_without_sides_and_parts_of_models_are_refused_before_the_run() -> None:
    for more, words in (
        ({"overlay": {"kind": "regular", "degree": 2, "dynamic": True}}, "others in every round"),
        ({"sharing": {"name": "topk"}}, "`full`"),
    ):
        with pytest.raises(InvalidInput) as caught:
            planned("adpsgd", **more)
        assert words in str(caught.value.findings[0])
