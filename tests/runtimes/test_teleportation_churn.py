"""Teleportation while nodes crash, leave, are paused and come back: no position stays empty, and nothing stalls."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.control.outcome import Outcome
from testbed.node.active_nodes import active_nodes
from testbed.plan.model import RunPlan
from testbed.records import Event, Round, Start
from testbed.rundir import RunDirectory
from tests.examples import examples
from tests.runtimes.sim_runs import plan_of, records, run, star
from tests.runtimes.test_sim import of_type

ROUNDS = 20


class Fault(NamedTuple):
    at_ms: int
    rank: int
    what: str
    back_ms: int | None


def planned(faults: list[Fault], *, active: int, graph: str, then: str, rejoin: str, nodes: int = 5) -> RunPlan:
    events = ""
    for each in sorted(faults):
        word = "for" if each.what == "pause" else "rejoin"
        back = "" if each.back_ms is None else f", {word}: {each.back_ms}ms"
        events += f"  - {{at: {each.at_ms}ms, node: node.{each.rank}, do: {each.what}{back}}}\n"
    return plan_of(
        star(nodes, events),
        algorithm={"name": "teleportation", "active": active, "graph": graph},
        missing={"after": "1s", "then": then},
        rejoin=rejoin,
        stop={"rounds": ROUNDS},
        evaluation={"mode": "none"},
    )


def turns(directory: RunDirectory, nodes: int = 5) -> Counter[tuple[int, int]]:
    """How often each node has ended each of its turns."""
    return Counter(
        (rank, each.round) for rank in range(nodes) for each in of_type(records(directory, f"node.{rank}"), Round)
    )


def scheduled(active: int, nodes: int = 5) -> set[tuple[int, int]]:
    return {(rank, round_) for round_ in range(ROUNDS) for rank in active_nodes(1, tuple(range(nodes)), round_, active)}


@pytest.mark.parametrize("active", [1, 2, 4])
def test_with_memory_a_crash_costs_no_turn(active: int, tmp_path: Path) -> None:
    """Whenever it happens: in a turn, while the model is handed on, or in between."""
    for number, at_ms in enumerate(range(60, 460, 27)):
        folder = tmp_path / str(at_ms)
        folder.mkdir()
        faults = [Fault(at_ms, number % 5, "crash", 100)]
        directory, outcome = run(planned(faults, active=active, graph="ring", then="wait", rejoin="last"), folder)
        assert (outcome.reason, outcome.finished, outcome.failures) == ("finished", 5, ())
        done = turns(directory)
        assert set(done) == scheduled(active)
        assert sum(done.values()) <= len(done) + 1
        told = [each.detail for rank in range(5) for each in of_type(records(directory, f"node.{rank}"), Event)]
        assert not [words for words in told if "no model came" in words], "no model was lost"
        assert outcome.t < 3


def test_the_one_node_that_works_crashes(tmp_path: Path) -> None:
    """The node before it has the model still, and hands it to the node after it."""
    faults = [Fault(300, rank, "crash", None) for rank in (1, 3)]
    directory, outcome = run(planned(faults, active=1, graph="ring", then="skip", rejoin="last"), tmp_path)
    assert (outcome.reason, outcome.failures) == ("finished", ())
    rounds = {round_ for _, round_ in turns(directory)}
    gone = {round_ for rank, round_ in scheduled(1) if rank in (1, 3)}
    assert rounds >= set(range(ROUNDS)) - gone
    assert outcome.t < 3 + 3 * len(gone)


FAULTS = st.lists(
    st.builds(
        Fault,
        st.integers(20, 1500),
        st.integers(0, 4),
        st.sampled_from(["crash", "crash", "leave", "pause"]),
        st.sampled_from([20, 300, 2500]),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda each: each.rank,
)


def outcome_of(plan: RunPlan, active: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        directory, outcome = run(plan, Path(folder))
        assert set(turns(directory)) <= scheduled(active)
        lives = sum(len(of_type(records(directory, f"node.{rank}"), Start)) for rank in range(5))
        assert sum(turns(directory).values()) <= len(scheduled(active)) * lives
    return outcome


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None, derandomize=True)
@given(FAULTS, st.integers(1, 5), st.sampled_from(["ring", "full"]), st.sampled_from(["last", "fresh"]))
def test_nothing_stalls(faults: list[Fault], active: int, graph: str, rejoin: str) -> None:
    """All come back, so those that wait for ever for dead nodes finish as well."""
    crashes = [each._replace(what="crash") if each.what == "leave" else each for each in faults]
    for then, chosen in (("skip", faults), ("wait", crashes)):
        outcome = outcome_of(planned(chosen, active=active, graph=graph, then=then, rejoin=rejoin), active)
        assert (outcome.reason, outcome.failures) == ("finished", ())


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None, derandomize=True)
@given(FAULTS.map(lambda faults: faults[:3]), st.integers(1, 5))
def test_nor_where_some_do_not_come_back(faults: list[Fault], active: int) -> None:
    for_ever = [each._replace(back_ms=None, what="crash") for each in faults]
    outcome = outcome_of(planned(for_ever, active=active, graph="ring", then="skip", rejoin="last"), active)
    assert (outcome.reason, outcome.failures) == ("finished", ())
