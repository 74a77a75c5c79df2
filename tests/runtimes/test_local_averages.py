"""Averages of all learners' models with real processes: the same as in virtual time, and never in the way."""

from __future__ import annotations

import asyncio
import heapq
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.control.averages import Averages
from testbed.control.log import ControlLog
from testbed.protocol.nodes import SLOTS, Left
from testbed.protocol.zygote import AverageEvaluated, Discard, EvaluateAverage
from testbed.records import AnyRecord, Average, Event
from testbed.rundir import RunDirectory
from testbed.runtimes.averaging import evaluate_average
from testbed.runtimes.processes.average_process import AverageEvaluator
from testbed.runtimes.processes.shared_models import SharedModels
from tests.runtimes import local_runs, sim_runs
from tests.runtimes.sim_runs import plan_of, records, star

RING: dict[str, Any] = {"overlay": {"kind": "ring"}, "stop": {"rounds": 5}, "evaluation": {"every": 2, "samples": 100}}


def averages(directory: RunDirectory) -> list[Average]:
    return [each for each in records(directory, None) if isinstance(each, Average)]


@local_runs.needs_network
def test_they_are_those_of_virtual_time(tmp_path: Path) -> None:
    """To the bit: the models are the same, and sums are in the order of ranks, not of arrival."""
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


FREE: dict[str, Any] = {
    "algorithm": {"name": "epidemic", "mode": "local", "round_end": "timeout", "timeout": "5ms", "fanout": 2},
    "compute": {"factors": [{"nodes": "node.3", "factor": 2}]},
    "missing": {"after": "1s"},
    "stop": {"rounds": 24},
    "evaluation": {"every": 1, "samples": 100},
}


@local_runs.needs_network
def test_nodes_that_run_freely_have_the_same_kind_of_averages_as_in_virtual_time(tmp_path: Path) -> None:
    """There is not room for all that the fast are ahead, but nothing is lost silently, and the last round is there."""
    (tmp_path / "sim").mkdir()
    (tmp_path / "local").mkdir()
    virtual, _ = sim_runs.run(plan_of(star(4), **FREE), tmp_path / "sim")
    real, outcome = local_runs.run(plan_of(star(4), **FREE), tmp_path / "local")
    assert not outcome.failures
    assert [(each.round, each.nodes) for each in averages(virtual)] == [(number, 4) for number in range(24)]
    found = averages(real)
    assert {each.nodes for each in found} == {4}
    assert sorted([each.round for each in found] + lost(real)) == list(range(24))
    assert found[-1].round == 23
    assert len(found) >= 8


def lost(directory: RunDirectory) -> list[int]:
    """Rounds without an average, as they were told."""
    told = [each for each in records(directory, None) if isinstance(each, Event) and each.what == "average-lost"]
    return [int(each.detail.split()[1].rstrip(":")) for each in told]


LEAKS = """
import pathlib, sys
from testbed.node.algorithms.dpsgd import DPSGD
from testbed.runtimes.processes.shared_models import SharedModels
class Mine(DPSGD): pass
put = SharedModels.put
def leak(shelf, rank, vector, *, is_last):
    if rank == 2 and not MARK.exists():
        while put(shelf, rank, vector, is_last=True) is not None:
            pass
        MARK.touch()
    return put(shelf, rank, vector, is_last=is_last)
MARK = pathlib.Path("{mark}")
if "zygote" in sys.argv[0]:
    SharedModels.put = leak
"""


@local_runs.needs_network
def test_what_a_life_did_not_tell_does_not_take_room_from_the_next(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    mark = tmp_path / "run" / "nodes" / "node.2" / "leaked"  # of all folders the one that it can write to
    source.write_text(LEAKS.format(mark=mark))
    what = "  - {at: 0.4s, node: node.2, do: crash}\n  - {at: 0.5s, node: node.2, do: join}\n"
    settings = {
        **RING,
        "algorithm": {"name": f"{source}:Mine"},
        "missing": {"then": "skip", "after": "0.2s"},
        "stop": {"rounds": 30},
    }
    directory, outcome = local_runs.run(plan_of(star(3, what), **settings), tmp_path)
    assert (outcome.reason, outcome.failures) == ("finished", ())
    assert mark.exists()
    assert [(each.round, each.nodes) for each in averages(directory)][-3:] == [(25, 3), (27, 3), (29, 3)]


EARLY = """
from testbed.node.algorithm import Algorithm
class Mine(Algorithm):
    async def run(self, node):
        async for number in node.rounds():
            await node.train()
            if node.rank == 1 and number == 3:
                break
"""


@local_runs.needs_network
def test_no_average_is_of_fewer_than_stayed(tmp_path: Path) -> None:
    """One node is done before the others, and there is nothing of it to be averaged with what they do then."""
    source = tmp_path / "mine.py"
    source.write_text(EARLY)
    settings = {**RING, "algorithm": {"name": f"{source}:Mine"}, "stop": {"rounds": 12}}
    settings["evaluation"] = {"every": 1, "samples": 100}
    directory, outcome = local_runs.run(plan_of(star(3), **settings), tmp_path, "none")
    assert (outcome.reason, outcome.finished) == ("finished", 3)
    assert [(each.round, each.nodes) for each in averages(directory)] == [(0, 3), (1, 3), (2, 3)]
    assert sorted(lost(directory)) == list(range(3, 12))


class Told:
    """A log and a evaluate_average that only remember."""

    def __init__(self, folder: Path) -> None:
        self.orders: list[EvaluateAverage | Discard] = []
        self.log = ControlLog(folder / "events.jsonl")
        self.path = folder / "events.jsonl"

    def records(self) -> list[AnyRecord]:
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
        assert told.orders == [EvaluateAverage(0, (0, 1, 2), (0, 3, 1))]
        each.evaluated(AverageEvaluated(0, 0.5, 1.25, 0.125))
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
    assert told.orders == [Discard((0,), (0,)), EvaluateAverage(1, (0, 1), (1, 0))]
    (lost,) = told.records()
    assert isinstance(lost, Event)
    assert (lost.what, lost.detail) == ("average-lost", "round 0: not every learner left its model")


def test_a_round_that_somebody_had_no_room_for_is_over_at_once_for_everybody(told: Told) -> None:
    async def scene() -> None:
        each = Averages(told.log, told.orders.append)
        each.left(0, Left(3, 1, 1.0), [0, 1, 2])
        each.left(1, Left(3, None, 2.0), [0, 1, 2])
        assert told.orders == [Discard((0,), (1,))]
        each.left(2, Left(3, 0, 3.0), [0, 1, 2])
        assert told.orders[1:] == [Discard((2,), (0,))]
        each.left(2, Left(3, None, 4.0), [0, 1, 2])
        await each.settle([0, 1, 2], 0.0)

    asyncio.run(scene())
    assert told.orders[2:] == []
    assert told.records() == [Event(2.0, "average-lost", "round 3: a learner had no free model slot")]


def test_what_is_replaced_or_comes_too_late_does_not_stay_on_the_shelf(told: Told) -> None:
    async def scene() -> None:
        each = Averages(told.log, told.orders.append)
        each.left(0, Left(1, 0, 1.0), [0, 1])
        each.left(0, Left(1, 2, 2.0), [0, 1])
        assert told.orders == [Discard((0,), (0,))]
        each.left(1, Left(1, 3, 3.0), [0, 1])
        assert told.orders[1:] == [EvaluateAverage(1, (0, 1), (2, 3))]
        each.left(2, Left(1, 1, 3.5), [0, 1, 2])  # it has joined meanwhile
        each.left(2, Left(0, 2, 3.5), [0, 1, 2])
        assert told.orders[2:] == [Discard((2,), (1,)), Discard((2,), (2,))]
        each.evaluated(AverageEvaluated(1, 0.5, 1.0, 0.0))

    asyncio.run(scene())
    assert told.records() == [Average(3.0, 1, 2, 0.5, 1.0, 0.0)]


def test_a_new_life_has_nothing_on_the_shelf(told: Told) -> None:
    """Or an average would be of a model that lies there now, and of another round."""

    async def scene() -> None:
        each = Averages(told.log, told.orders.append)
        each.left(0, Left(1, 0, 1.0), [0, 1])
        each.left(0, Left(2, 1, 2.0), [0, 1])
        each.lives_again(0)
        each.left(1, Left(1, 2, 3.0), [0, 1])
        assert told.orders == []
        each.left(0, Left(1, 3, 4.0), [0, 1])
        assert told.orders == [EvaluateAverage(1, (0, 1), (3, 2))]
        each.give_up()
        await each.settle([0, 1], 0.0)

    asyncio.run(scene())
    assert told.records() == []


class Runners:
    """Nodes of different speed that never wait leave their models in real slots, and are evaluated at once."""

    def __init__(self, told: Told, rounds: int, step_s: list[float]) -> None:
        self._shelf = SharedModels(len(step_s), 1)
        self._rounds = rounds
        self._averages = Averages(told.log, self._obey)
        self._moments = [
            (step_s[rank] * (number + 1), rank, number) for rank in range(len(step_s)) for number in range(rounds)
        ]

    def _obey(self, order: EvaluateAverage | Discard) -> None:
        if isinstance(order, EvaluateAverage):
            vectors = self._shelf.vectors(order.ranks, order.slots)
            assert [float(each[0]) for each in vectors] == [order.round] * len(vectors)
            asyncio.get_running_loop().call_soon(self._averages.evaluated, AverageEvaluated(order.round, 0.5, 1.0, 0.0))
        self._shelf.clear(order.ranks, order.slots)

    async def run(self, everybody: list[int]) -> None:
        heapq.heapify(self._moments)
        while self._moments:
            t, rank, number = heapq.heappop(self._moments)
            vector = np.full(1, number, np.float32)
            slot = self._shelf.put(rank, vector, is_last=number + 1 == self._rounds)
            self._averages.left(rank, Left(number, slot, t), everybody)
            await asyncio.sleep(0)
        await self._averages.settle(everybody, 1.0)


@pytest.mark.parametrize("step_s", [[1.0, 1.3], [1.3, 1.0], [1.0, 1.01, 2.0, 0.99]])
def test_nodes_that_run_freely_are_averaged_until_the_end(step_s: list[float], told: Told) -> None:
    """No slot stays taken for ever by rounds for which another node had no slot."""
    asyncio.run(Runners(told, 307, step_s).run(list(range(len(step_s)))))
    written = told.records()
    found = [each for each in written if isinstance(each, Average)]
    lost = [int(each.detail.split()[1].rstrip(":")) for each in written if isinstance(each, Event)]
    assert sorted([each.round for each in found] + lost) == list(range(307))
    assert {each.nodes for each in found} == {len(step_s)}
    assert [each.round for each in found[:2]] == [0, 1]
    assert found[-1].round == 306
    assert len(found) >= 25
    assert max(np.diff([each.round for each in found])) <= 60  # about as far as the fast are ahead, with so few slots


def test_the_end_of_a_run_waits_for_averages_but_not_for_ever(told: Told) -> None:
    async def scene() -> None:
        each = Averages(told.log, told.orders.append)
        each.left(0, Left(4, 0, 1.0), [0, 1])
        each.left(1, Left(5, 1, 2.0), [0, 1])
        await each.settle([0], 0.0)  # the other has failed
        assert told.orders == [EvaluateAverage(4, (0,), (0,)), Discard((1,), (1,))]
        late = Averages(told.log, told.orders.append)
        late.left(0, Left(7, 0, 3.0), [0])
        waiting = asyncio.ensure_future(late.settle([0], 60.0))
        await asyncio.sleep(0)
        late.evaluated(AverageEvaluated(7, problem="it is bad"))
        await waiting

    asyncio.run(scene())
    assert [each.detail for each in told.records() if isinstance(each, Event)] == [
        "round 5: not every learner came that far",
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
    assert told.orders == [Discard((0,), (0,))] * 4000 + [Discard((1,), (0,))]  # of 1000 rounds it is believed


def test_the_shelf_keeps_copies_until_they_are_cleared() -> None:
    shelf = SharedModels(3, 5)
    model = np.arange(5, dtype=np.float32)
    slots = [shelf.put(1, model + number, is_last=False) for number in range(SLOTS - 1)]
    assert slots == list(range(SLOTS - 1))
    assert shelf.put(1, model, is_last=False) is None
    assert shelf.put(1, model, is_last=True) == SLOTS - 1
    assert shelf.put(1, model, is_last=True) is None
    assert shelf.put(2, -model, is_last=True) == 0
    np.testing.assert_array_equal(shelf.vectors([1, 2], [2, 0]), [model + 2, -model])
    shelf.clear([1], [2])
    assert shelf.put(1, model, is_last=False) == 2


def test_before_a_new_life_only_what_is_to_be_judged_stays() -> None:
    """A node may have been killed before it could tell what it had left."""
    shelf = SharedModels(2, 1)
    model = np.zeros(1, np.float32)
    for rank in (0, 0, 0, 0, 0, 1, 1, 1, 1, 1):
        assert shelf.put(rank, model, is_last=True) is not None
    evaluator = AverageEvaluator(shelf, _never, _never, _never)  # type: ignore[arg-type]
    evaluator.ask(EvaluateAverage(7, (0, 1), (3, 1)))
    evaluator.ask(EvaluateAverage(8, (0, 1), (0, 4)))
    evaluator.clear_before_life(0)
    assert [shelf.put(0, model, is_last=True) for _ in range(4)] == [1, 2, 4, None]
    assert shelf.put(1, model, is_last=True) is None


def _never() -> None:
    raise AssertionError


def test_a_large_shelf_is_in_pieces_that_do_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.runtimes.processes.shared_models._LARGEST_BYTES", 2 * 4 * SLOTS * 3)
    shelf = SharedModels(5, 3)
    for rank in range(5):
        for slot in range(SLOTS):
            assert shelf.put(rank, np.full(3, 10 * rank + slot, np.float32), is_last=True) == slot
    found = shelf.vectors([rank for rank in range(5) for _ in range(SLOTS)], list(range(SLOTS)) * 5)
    assert [float(each[0]) for each in found] == [10.0 * rank + slot for rank in range(5) for slot in range(SLOTS)]


def test_the_arithmetic_by_hand() -> None:
    from testbed.node.training_settings import Score

    tried: list[list[float]] = []

    def evaluate(vector: np.ndarray[Any, Any]) -> Score:
        tried.append(vector.tolist())
        return Score(0.5, 2.0, 10)

    found = evaluate_average([np.array([0, 3], np.float32), np.array([6, 3], np.float32)], evaluate)
    assert tried == [[3.0, 3.0]]
    assert found == (0.5, 2.0, 3.0)
