"""Neighbours that crash and come back one after the other: no node waits for models sent before a crash."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.control.outcome import Outcome
from testbed.plan.model import RunPlan
from testbed.records import End, Event, Round, Start
from testbed.rundir import RunDirectory
from tests.contract.contract import ALGORITHMS, LOCKSTEP
from tests.examples import examples
from tests.runtimes import local_runs
from tests.runtimes.sim_runs import plan_of, records, run, star, texts
from tests.runtimes.test_sim import of_type

ROUNDS = 45
NODES = tuple(f"node.{rank}" for rank in range(4))
WAIT = {"after": "60s", "then": "wait"}
BACK_S = 0.3
SYNCHRONOUS = sorted(LOCKSTEP - {"plexus", "conflux"})
"""Plexus takes others in place of nodes that do not answer."""
WITHOUT_SAMPLER = sorted(LOCKSTEP - {"sampler"})
"""What a peer sampler was asked when it crashed is lost."""


class Crash(NamedTuple):
    at_s: float
    rank: int
    back_s: float = BACK_S


ONE = (Crash(1.2, 1),)
BOTH = (*ONE, Crash(1.75, 2))


def plan(name: str, *crashes: Crash, rounds: int = ROUNDS, **more: Any) -> RunPlan:
    events = "".join(
        f"  - {{at: {each.at_s}s, node: node.{each.rank}, do: crash, rejoin: {each.back_s}s}}\n" for each in crashes
    )
    chosen = {"missing": WAIT, "stop": {"rounds": rounds}, "evaluation": {"mode": "none"}, **ALGORITHMS[name], **more}
    return plan_of(star(4, events), **chosen)


def all_is_done(directory: RunDirectory, outcome: Outcome, rounds: int = ROUNDS) -> None:
    """Everybody has finished, and did all rounds; a worker counts its own, and may have done one twice."""
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ())
    for name in NODES:
        end = records(directory, name)[-1]
        assert isinstance(end, End)
        assert end.reason == "finished"
        assert end.rounds == rounds or (end.rounds == rounds + 1 and _is_worker(directory, name))


def _is_worker(directory: RunDirectory, name: str) -> bool:
    start = of_type(records(directory, name), Start)[0]
    return start.algorithm == "parameter-server" and "server" not in start.roles


def lives(directory: RunDirectory, name: str) -> int:
    return len(of_type(records(directory, name), Start))


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_it_takes_hardly_longer_than_one_crash(name: str, tmp_path: Path) -> None:
    took_s = {}
    for case, crashes in (("none", ()), ("one", ONE), ("both", BOTH)):
        (tmp_path / case).mkdir()
        directory, outcome = run(plan(name, *crashes), tmp_path / case)
        all_is_done(directory, outcome)
        assert [lives(directory, each) for each in NODES] == [
            1 + sum(each.rank == rank for each in crashes) for rank in range(4)
        ]
        assert not any(of_type(records(directory, each), Event) for each in NODES), "no peer was missed"
        took_s[case] = outcome.t
    assert took_s["none"] > BOTH[-1].at_s, "else no node crashed"
    assert took_s["one"] < took_s["none"] + 2 * BACK_S
    assert took_s["none"] < took_s["both"] < took_s["one"] + 2 * BACK_S


@pytest.mark.parametrize("name", ["dpsgd", "dynamic", "epidemic-local", "mosaic", "topk"])
def test_who_came_back_has_all_its_neighbours_again(name: str, tmp_path: Path) -> None:
    (tmp_path / "undisturbed").mkdir()
    undisturbed, _ = run(plan(name), tmp_path / "undisturbed")
    directory, _ = run(plan(name, *BOTH), tmp_path)
    for each in NODES:
        last = {record.round: record.aggregated for record in of_type(records(directory, each), Round)}
        usual = {record.round: record.aggregated for record in of_type(records(undisturbed, each), Round)}
        assert last.keys() == usual.keys()
        few = [round_ for round_ in usual if last[round_] != usual[round_]]
        assert len(few) <= 4
        assert all(last[round_] < usual[round_] for round_ in few), "no model is counted twice"


@pytest.mark.parametrize("name", ["fedavg", "parameter-server"])
@pytest.mark.parametrize("ranks", [(0, 1), (1, 0), (0, 0), (1, 1)])
def test_a_server_and_a_client_come_back(name: str, ranks: tuple[int, int], tmp_path: Path) -> None:
    for at_s in (1.70, 1.72, 1.74, 1.76):  # in all parts of a round
        folder = tmp_path / f"{at_s}"
        folder.mkdir()
        directory, outcome = run(plan(name, Crash(1.2, ranks[0]), Crash(at_s, ranks[1])), folder)
        assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ())
        assert of_type(records(directory, "node.0"), End)[-1].rounds == ROUNDS
        assert lives(directory, f"node.{ranks[1]}") == (3 if ranks[0] == ranks[1] else 2)


@pytest.mark.parametrize("rejoin", ["fresh", "last"])
def test_an_asynchronous_server_that_comes_back_takes_gradients_of_later_versions(rejoin: str, tmp_path: Path) -> None:
    for at_s in (1.20, 1.41):
        folder = tmp_path / f"{at_s}"
        folder.mkdir()
        directory, outcome = run(plan("asynchronous", Crash(at_s, 0), rejoin=rejoin), folder)
        assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ())
        assert of_type(records(directory, "node.0"), End)[-1].rounds == ROUNDS


@pytest.mark.parametrize("name", ["fedavg", "parameter-server", "asynchronous"])
def test_a_client_that_comes_back_when_its_server_is_done_is_done_too(name: str, tmp_path: Path) -> None:
    """It has missed the server's last word, and another one still trains."""
    settings = {
        "missing": {"after": "1s", "then": "skip"},
        "compute": {"factors": [{"nodes": "node.2", "factor": 900}]},
    }
    directory, outcome = run(plan(name, Crash(0.3, 3, 8.0), rounds=6, **settings), tmp_path)
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ())
    assert of_type(records(directory, "node.0"), End)[0].t < 8
    assert lives(directory, "node.3") == 2
    end = of_type(records(directory, "node.3"), End)[-1]
    assert (end.reason, 8.3 <= end.t < 8.4) == ("finished", True)
    assert outcome.t > 9


def test_a_client_that_had_answered_before_it_crashed_does_not_train_again(tmp_path: Path) -> None:
    slow = {"factors": [{"nodes": "node.3", "factor": 20}]}
    directory, outcome = run(plan("fedavg", Crash(0.3, 1), rounds=3, compute=slow), tmp_path)
    assert (outcome.finished, outcome.failures, lives(directory, "node.1")) == (4, (), 2)
    assert [each.round for each in of_type(records(directory, "node.1"), Round)] == [0, 1, 2]
    assert [each.expired for each in of_type(records(directory, "node.0"), Round)] == [0, 0, 0]


def test_a_neighbour_that_has_finished_is_not_waited_for(tmp_path: Path) -> None:
    """It crashes in its last round, having sent its model: those that have it finish without it."""
    slow = {"factors": [{"nodes": "node.0", "factor": 20}]}
    undisturbed, _ = run(plan("dpsgd", rounds=3, compute=slow), tmp_path)
    before_last = of_type(records(undisturbed, "node.0"), Round)[1].t
    (tmp_path / "crash").mkdir()
    at_s = round(before_last + 0.3, 3)
    directory, outcome = run(plan("dpsgd", Crash(at_s, 1), rounds=3, compute=slow), tmp_path / "crash")
    all_is_done(directory, outcome, rounds=3)
    assert lives(directory, "node.1") == 2
    assert of_type(records(directory, "node.2"), End)[0].t < at_s
    last = of_type(records(directory, "node.1"), Round)[-1]
    assert (last.aggregated, last.expired) == (1, 1)
    assert outcome.t == pytest.approx(of_type(records(undisturbed, "node.0"), End)[0].t, abs=0.1)


@pytest.mark.parametrize("name", ["dpsgd", "fedavg"])
def test_the_order_within_an_instant_decides_nothing(name: str, tmp_path: Path) -> None:
    found = []
    for shuffle in (None, 1, 2):
        folder = tmp_path / str(shuffle)
        folder.mkdir()
        directory, _ = run(plan(name, *BOTH, Crash(1.75, 3), rounds=40), folder, shuffle=shuffle)
        found.append({path: text for path, text in texts(directory).items() if "nodes" in path})
    assert found[0] == found[1] == found[2]


CRASHES = st.lists(
    st.builds(Crash, st.integers(20, 1500).map(lambda ms: ms / 1000), st.integers(0, 3), st.sampled_from([0.02, 0.3])),
    min_size=1,
    max_size=5,
    unique_by=lambda each: each.at_s,
).map(sorted)


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None, derandomize=True)
@given(st.sampled_from(WITHOUT_SAMPLER), CRASHES)
def test_nothing_stalls_when_all_are_back(name: str, crashes: list[Crash]) -> None:
    """A node that is told to crash while it is away does not."""
    with tempfile.TemporaryDirectory() as folder:
        _, outcome = run(plan(name, *crashes, rounds=20), Path(folder))
    assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 4, ())


@local_runs.needs_network
def test_real_neighbours_come_back_one_after_the_other(tmp_path: Path) -> None:
    directory, outcome = local_runs.run(plan("dpsgd", *BOTH, compute={"ms_per_step": 20}), tmp_path)
    all_is_done(directory, outcome)
    assert [lives(directory, each) for each in NODES] == [1, 2, 2, 1]
    for each in NODES:
        full = [record.round for record in of_type(records(directory, each), Round) if record.aggregated == 2]
        assert len(full) >= ROUNDS - 8
