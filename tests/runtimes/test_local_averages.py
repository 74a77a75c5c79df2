"""Averages of all learners' models with real processes: the same as in virtual time, and never in the way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.control.averages import Averages
from testbed.control.log import ControlLog
from testbed.protocol import SLOTS, Discard, Judge, Judged, Left
from testbed.records import AnyRecord, Average, Event
from testbed.rundir import RunDirectory
from testbed.runtimes.averaging import judge
from testbed.runtimes.local.shelf import Shelf
from tests.runtimes import local_runs, sim_runs
from tests.runtimes.sim_runs import plan_of, records, star

RING: dict[str, Any] = {"overlay": {"kind": "ring"}, "stop": {"rounds": 5}, "evaluation": {"every": 2, "samples": 100}}


def averages(directory: RunDirectory) -> list[Average]:
    return [each for each in records(directory, None) if isinstance(each, Average)]


@local_runs.needs_network
def test_they_are_those_of_virtual_time(tmp_path: Path) -> None:
    """To the bit: the models are the same, and sums are in the order of ranks, whoever was first."""
    (tmp_path / "sim").mkdir()
    (tmp_path / "local").mkdir()
    virtual, _ = sim_runs.run(plan_of(star(4), **RING), tmp_path / "sim")
    real, outcome = local_runs.run(plan_of(star(4), **RING), tmp_path / "local")
    assert not outcome.failures
    expected = [
        (each.round, each.nodes, each.accuracy, each.loss, each.consensus_distance) for each in averages(virtual)
    ]
    assert [each[0] for each in expected] == [1, 3, 4]
    found = averages(real)
    assert [(each.round, each.nodes, each.accuracy, each.loss, each.consensus_distance) for each in found] == expected
    assert 0 < found[0].t < found[1].t < found[2].t <= outcome.t
    assert records(real, None)[-1].t == outcome.t


@local_runs.needs_network
def test_a_model_that_cannot_be_tried_costs_the_average_only(tmp_path: Path) -> None:
    """A learner that is gone is not waited for, and what it left is not forgotten in memory."""
    what = "  - {at: 0.4s, node: node.3, do: leave}\n"
    directory, outcome = local_runs.run(plan_of(star(4, what), **{**RING, "stop": {"rounds": 30}}), tmp_path)
    assert (outcome.reason, outcome.failures) == ("finished", ())
    assert averages(directory)[-1].round == 29
    assert averages(directory)[-1].nodes == 3


class Told:
    """A log and a judge that only remember."""

    def __init__(self, folder: Path) -> None:
        self.orders: list[Judge | Discard] = []
        self.log = ControlLog(folder / "events.jsonl")
        self.path = folder / "events.jsonl"

    def records(self) -> list[AnyRecord]:
        self.log.flush()
        return [sim_runs.DECODER.decode(text) for text in self.path.read_bytes().splitlines()]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def test_a_round_is_judged_when_the_last_living_learner_has_left_its_model(told: Told) -> None:
    async def scene() -> None:
        each = Averages(told.log, told.orders.append)
        each.left(2, Left(0, 1, 1.0), [0, 2])
        assert told.orders == []
        each.left(1, Left(0, 3, 1.5), [0, 2])  # it ends at once
        each.left(0, Left(0, 0, 2.0), [0, 2])
        assert told.orders == [Judge(0, (0, 1, 2), (0, 3, 1))]
        each.judged(Judged(0, 0.5, 1.25, 0.125))
        await each.settle([], 0.0)

    asyncio.run(scene())
    assert told.records() == [Average(2.0, 0, 3, 0.5, 1.25, 0.125)]


def test_a_round_that_never_will_be_complete_is_forgotten(told: Told) -> None:
    async def scene() -> None:
        each = Averages(told.log, told.orders.append)
        each.left(0, Left(0, 0, 1.0), [0, 1])
        each.left(0, Left(1, 1, 2.0), [0, 1])
        each.left(1, Left(1, 0, 3.0), [0, 1])

    asyncio.run(scene())
    assert told.orders == [Discard((0,), (0,)), Judge(1, (0, 1), (1, 0))]
    (lost,) = told.records()
    assert isinstance(lost, Event)
    assert (lost.what, lost.detail) == ("average-lost", "round 0: not every learner left its model")


def test_the_end_of_a_run_waits_for_averages_but_not_for_ever(told: Told) -> None:
    async def scene() -> None:
        each = Averages(told.log, told.orders.append)
        each.left(0, Left(4, 0, 1.0), [0, 1])
        each.left(1, Left(5, 0, 2.0), [0, 1])
        await each.settle([0], 0.0)  # the other has failed
        assert told.orders == [Judge(4, (0,), (0,))]
        late = Averages(told.log, told.orders.append)
        late.left(0, Left(7, 0, 3.0), [0])
        waiting = asyncio.ensure_future(late.settle([0], 60.0))
        await asyncio.sleep(0)
        late.judged(Judged(7, problem="it is bad"))
        await waiting

    asyncio.run(scene())
    assert [each.detail for each in told.records() if isinstance(each, Event)] == [
        "round 4: there was no time left to try it",
        "round 7: it is bad",
    ]


def test_a_flood_of_rounds_is_bounded(told: Told) -> None:
    async def scene() -> None:
        each = Averages(told.log, told.orders.append)
        for number in range(5000):
            each.left(0, Left(number, 0, 1.0), [0, 1])
        each.left(1, Left(4000, 0, 1.0), [0, 1])

    asyncio.run(scene())
    assert told.orders == []


def test_the_shelf_keeps_copies_until_they_are_cleared() -> None:
    shelf = Shelf(3, 5)
    model = np.arange(5, dtype=np.float32)
    slots = [shelf.put(1, model + number) for number in range(SLOTS)]
    assert slots == list(range(SLOTS))
    assert shelf.put(1, model) is None
    assert shelf.put(2, -model) == 0
    np.testing.assert_array_equal(shelf.vectors([1, 2], [2, 0]), [model + 2, -model])
    shelf.clear([1], [2])
    assert shelf.put(1, model) == 2


def test_a_large_shelf_is_in_pieces_that_do_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.runtimes.local.shelf._LARGEST_BYTES", 2 * 4 * SLOTS * 3)
    shelf = Shelf(5, 3)
    for rank in range(5):
        for slot in range(SLOTS):
            assert shelf.put(rank, np.full(3, 10 * rank + slot, np.float32)) == slot
    found = shelf.vectors([rank for rank in range(5) for _ in range(SLOTS)], list(range(SLOTS)) * 5)
    assert [float(each[0]) for each in found] == [10.0 * rank + slot for rank in range(5) for slot in range(SLOTS)]


def test_the_arithmetic_by_hand() -> None:
    from testbed.node.training_settings import Score

    tried: list[list[float]] = []

    def evaluate(vector: np.ndarray[Any, Any]) -> Score:
        tried.append(vector.tolist())
        return Score(0.5, 2.0, 10)

    found = judge([np.array([0, 3], np.float32), np.array([6, 3], np.float32)], evaluate)
    assert tried == [[3.0, 3.0]]
    assert found == (0.5, 2.0, 3.0)
