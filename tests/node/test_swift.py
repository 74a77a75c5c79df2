"""SWIFT: what is averaged when, by which weights, without waiting, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from testbed.node.algorithms.swift import Swift
from testbed.node.life import Reason
from testbed.node.messages import Message
from testbed.node.world import Vector
from tests.node.small_world import Graph, Outcome, Quadratic, World, full, ring
from tests.node.test_ccs_weights import BY_HAND, IRREGULAR, matrix
from tests.node.vectors import apart

EVALUATED = {"evaluation": {"every": 1, "mode": "after"}}
SWIFT = {"name": "swift"}
WITHOUT_MEMORY = {"name": "swift", "memory": False}
CHAIN: Graph = [[1], [0, 2], [1]]


def by_hand() -> np.ndarray:
    """The weights of IRREGULAR, from the fractions of its own test."""
    weights = np.zeros((6, 6))
    for (one, other), weight in BY_HAND.items():
        numerator, denominator = weight.split("/")
        weights[one, other] = weights[other, one] = int(numerator) / int(denominator)
    return weights + np.diag(1 - weights.sum(axis=1))


def after(outcome: Outcome, round_: int, nodes: int) -> np.ndarray:
    return np.array([outcome.evaluated[rank, round_] for rank in range(nodes)], np.float64)


def mean(outcome: Outcome) -> np.ndarray:
    return np.asarray(np.mean(np.array(outcome.models, np.float64), axis=0))


def copies(outcome: Outcome, rank: int) -> int:
    """Messages that a node sent after its last round."""
    return outcome.end(rank).sent.messages - sum(each.sent.messages for each in outcome.rounds(rank))


# What an iteration does


@pytest.mark.parametrize("steps_between", [1, 2, 3])
@pytest.mark.parametrize("memory", [True, False])
def test_it_is_the_paper_s_formula(steps_between: int, memory: bool) -> None:
    """X(t+1) = W X(t) + changes at X(t), W every s-th time, on 6 nodes; the change is that of two steps in a row.

    Messages take 10 ms and iterations 20 ms, so everything arrives in time.
    """
    algorithm = {"name": "swift", "steps_between": steps_between, "memory": memory}
    world = World(6, algorithm=algorithm, graph=IRREGULAR, rounds=9, steps=2, first_model=apart, experiment=EVALUATED)
    outcome = world.run()
    learners = [Quadratic(world, None, learner) for learner in range(6)]  # type: ignore[arg-type]
    expected = np.array([apart(learner) for learner in range(6)], np.float64)
    for round_ in range(9):
        changes = np.zeros_like(expected)
        for learner, node in enumerate(learners):
            for step in (2 * round_, 2 * round_ + 1):
                changes[learner] -= 0.1 * node.slope(expected[learner] + changes[learner], step)
        if (round_ + 1) % steps_between == 0:
            expected = by_hand() @ expected
        expected = expected + changes
        np.testing.assert_allclose(after(outcome, round_, 6), expected, rtol=0, atol=1e-5)


def test_alone_it_is_plain_gradient_descent() -> None:
    alone = World(1, algorithm=SWIFT, graph=[[]], rounds=7)
    np.testing.assert_allclose(
        alone.run().models[0], replace(alone, algorithm={"name": "dpsgd"}).run().models[0], atol=1e-6
    )


@pytest.mark.parametrize("steps_between", [1, 4])
def test_a_model_is_broadcast_in_every_iteration(steps_between: int) -> None:
    algorithm = {"name": "swift", "steps_between": steps_between}
    outcome = World(6, algorithm=algorithm, graph=IRREGULAR, rounds=8, steps=2).run()
    header = len(Message("model", 0, {"degree": 4}, (np.zeros(8, np.float32),)).header)
    for rank, neighbours in enumerate(IRREGULAR):
        for record in outcome.rounds(rank):
            assert record.sent.messages == len(neighbours)
            assert record.sent.payload == len(neighbours) * 4 * 8
            assert record.sent.metadata == len(neighbours) * header
    heard = [record.aggregated for record in outcome.rounds(2)]
    assert heard == [2 if (round_ + 1) % steps_between == 0 else 0 for round_ in range(8)]


def test_what_is_broadcast_is_the_model_before_training() -> None:
    """Without a weight on the own change, a neighbour would see it one iteration early."""
    sent: dict[int, Vector] = {}

    def look(sender: int, _to: int, message: Message) -> None:
        if sender == 0 and message.payload:
            sent.setdefault(message.round, message.payload[0].copy())  # type: ignore[arg-type]

    outcome = World(2, algorithm=SWIFT, graph=full(2), rounds=4, experiment=EVALUATED, before_shipping=look).run()
    assert not sent[0].any()
    for round_ in range(1, 4):
        np.testing.assert_array_equal(sent[round_], outcome.evaluated[0, round_ - 1])


# What is conserved, and how fast nodes agree


@pytest.mark.parametrize("graph", [IRREGULAR, ring(7), full(5)], ids=["irregular", "ring", "full"])
@pytest.mark.parametrize("memory", [True, False])
def test_without_training_the_mean_stays_if_all_is_heard_in_time(graph: Graph, memory: bool) -> None:
    n = len(graph)
    algorithm = {"name": "swift", "memory": memory}
    outcome = World(n, algorithm=algorithm, graph=graph, lr=0.0, rounds=15, steps=2, first_model=apart).run()
    start = np.mean([apart(learner) for learner in range(n)], axis=0)
    np.testing.assert_allclose(mean(outcome), start, rtol=0, atol=1e-6)


def test_it_does_not_stay_if_a_node_is_slower() -> None:
    """Of what a fast node takes in twice, the slow one gives away once: only all speeds alike keep the mean.

    All models still agree in the end, within the range of those at the start.
    """
    world = World(6, algorithm=SWIFT, graph=IRREGULAR, lr=0.0, rounds=60, first_model=apart)
    world.step_s = lambda learner, _step: 0.07 if learner == 3 else 0.02
    outcome = world.run()
    start = np.array([apart(learner) for learner in range(6)])
    assert np.abs(mean(outcome) - start.mean(axis=0)).max() > 1e-2
    assert (mean(outcome) < start.max(axis=0)).all()
    assert (mean(outcome) > start.min(axis=0)).all()
    assert np.ptp(outcome.models, axis=0).max() < 1e-3


@pytest.mark.parametrize("graph", [IRREGULAR, ring(8)], ids=["irregular", "ring"])
def test_without_training_nodes_agree_as_fast_as_the_eigenvalues_say(graph: Graph) -> None:
    n, rounds = len(graph), 14
    second = sorted(np.abs(np.linalg.eigvalsh(matrix(graph))))[-2]
    world = World(n, algorithm=SWIFT, graph=graph, lr=0.0, rounds=rounds, steps=2, first_model=apart)
    world.experiment = EVALUATED
    outcome = world.run()
    spread = [after(outcome, round_, n).var(axis=0).sum() for round_ in range(rounds)]
    decay = (spread[-1] / spread[-5]) ** (1 / 4)
    assert 0.9 * second**2 < decay < 1.02 * second**2


# Nodes never wait


def test_neither_a_slow_nor_a_dead_nor_a_distant_neighbour_delays_an_iteration() -> None:
    world = World(5, algorithm=SWIFT, graph=full(5), rounds=30)
    world.step_s = lambda learner, _step: 0.9 if learner == 1 else 0.02
    world.latency_s = lambda sender, _to: 7.0 if sender == 2 else 0.01
    world.early = [(0.1, 3, Reason.INTERRUPTED)]
    world.experiment = {"missing": {"after": "3s", "then": "wait"}}
    outcome = world.run()
    for rank in (0, 2, 4):
        assert [each.t for each in outcome.rounds(rank)] == pytest.approx([0.02 * (1 + n) for n in range(30)])
        assert sum(each.phases.wait for each in outcome.rounds(rank)) == 0.0


def test_nothing_depends_on_the_order_of_nodes_within_an_instant() -> None:
    """Steps of 20 ms and messages of 10 ms or, to the microsecond, 20 ms."""
    for algorithm in (SWIFT, WITHOUT_MEMORY, {"name": "swift", "steps_between": 3}):
        world = World(6, algorithm=algorithm, graph=IRREGULAR, rounds=12, step_s=lambda _learner, _step: 0.02)
        world.rate_bps = 1e30
        world.latency_s = lambda sender, to: 0.02 if (sender + to) % 2 else 0.01
        usual = world.run()
        for order in ((5, 4, 3, 2, 1, 0), (2, 0, 4, 1, 5, 3)):
            shuffled = replace(world, order=order).run()
            assert shuffled.journals == usual.journals
            assert [each.tobytes() for each in shuffled.models] == [each.tobytes() for each in usual.models]


# What is mixed if nothing has come


def first(outcome: Outcome, rank: int) -> Vector:
    return outcome.evaluated[rank, 0]


def test_with_memory_the_model_that_all_start_from_is_there_at_first() -> None:
    """In the first iteration nothing arrives: a node averages with what its neighbours began with."""
    world = World(3, algorithm=SWIFT, graph=CHAIN, lr=0.5, noise=0.0, rounds=2, experiment=EVALUATED)
    world.first_model = lambda _learner: np.ones(8, np.float32)
    world.latency_s = lambda _sender, _to: 0.015
    outcome = world.run()
    goal = Quadratic(world, None, 1).slope(np.zeros(8, np.float32), 0)  # type: ignore[arg-type]
    np.testing.assert_allclose(first(outcome, 1), 1 - 0.5 * (1 + goal), rtol=0, atol=1e-6)
    # In the second: models of the first iteration, from before training. Its own weight is 1/3.
    after_one = first(outcome, 1).astype(np.float64)
    expected = after_one / 3 + 2 / 3 - 0.5 * (after_one + goal)
    np.testing.assert_allclose(outcome.evaluated[1, 1], expected, rtol=0, atol=1e-6)


def lonely(algorithm: Mapping[str, object]) -> Outcome:
    """Node 1 of three in a chain hears nothing of node 0 after its first model, and everything of node 2."""
    world = World(3, algorithm=algorithm, graph=CHAIN, lr=0.0, rounds=4, steps=2, first_model=apart)
    world.experiment = EVALUATED
    world.lost = lambda sender, to, message: (sender, to) == (0, 1) and message.round > 0
    return world.run()


def test_with_memory_the_last_model_of_a_silent_neighbour_is_used_again() -> None:
    outcome = lonely(SWIFT)
    for round_ in range(1, 4):
        before = after(outcome, round_ - 1, 3)
        expected = (before[1] + before[2] + apart(0)) / 3
        np.testing.assert_allclose(outcome.evaluated[1, round_], expected, rtol=0, atol=1e-6)


def test_without_memory_the_weight_of_a_silent_neighbour_is_the_node_s_own() -> None:
    outcome = lonely(WITHOUT_MEMORY)
    for round_ in range(1, 4):
        before = after(outcome, round_ - 1, 3)
        np.testing.assert_allclose(outcome.evaluated[1, round_], (2 * before[1] + before[2]) / 3, rtol=0, atol=1e-6)


def test_with_boost_the_weights_of_those_that_came_are_raised() -> None:
    outcome = lonely({"name": "swift", "memory": False, "boost": True})
    for round_ in range(1, 4):
        before = after(outcome, round_ - 1, 3)
        np.testing.assert_allclose(outcome.evaluated[1, round_], (before[1] + before[2]) / 2, rtol=0, atol=1e-6)


def test_boosted_weights_add_up_to_one_on_every_graph() -> None:
    """Divided by (received + 1) / (degree + 1), as published, they do not where degrees differ."""
    algorithm = {"name": "swift", "memory": False, "boost": True}
    world = World(6, algorithm=algorithm, graph=IRREGULAR, lr=0.0, rounds=6, steps=2)
    world.first_model = lambda _learner: np.ones(8, np.float32)
    world.lost = lambda sender, to, message: (sender + to + message.round) % 3 == 0
    for model in world.run().models:
        np.testing.assert_allclose(model, 1.0, rtol=0, atol=1e-6)


def test_a_neighbour_that_stays_silent_is_left_out_if_the_experiment_says_so() -> None:
    """Its weight is the node's own, until it is heard again; with `wait` its last model counts on."""
    for then in ("wait", "skip"):
        world = World(3, algorithm=SWIFT, graph=CHAIN, lr=0.0, rounds=30, steps=2, first_model=apart)
        world.experiment = {"missing": {"after": "200ms", "then": then}, **EVALUATED}
        world.lost = lambda sender, to, message: (sender, to) == (0, 1) and 0 < message.round < 20
        outcome = world.run()
        before = after(outcome, 14, 3)
        both = (before[1] + before[2] + apart(0)) / 3 if then == "wait" else (2 * before[1] + before[2]) / 3
        np.testing.assert_allclose(outcome.evaluated[1, 15], both, rtol=0, atol=1e-6)
        before = after(outcome, 20, 3)
        np.testing.assert_allclose(outcome.evaluated[1, 21], before.mean(axis=0), rtol=0, atol=1e-6)


def test_a_neighbour_that_stays_silent_ends_the_node_if_the_experiment_says_so() -> None:
    world = World(3, algorithm=SWIFT, graph=CHAIN, rounds=30, steps=2)
    world.experiment = {"missing": {"after": "200ms", "then": "abort"}}
    world.lost = lambda sender, to, _message: (sender, to) == (0, 1)
    failure = world.run().end(1).failure
    assert failure is not None
    assert failure.message == "node0 sent nothing for 0.2 s"


# Which model is the newest


OUT_OF_ORDER = """from testbed.node.algorithms.swift import Swift
from testbed.node.messages import Message
import numpy as np


class OutOfOrder(Swift):
    async def run(self, node):
        if node.rank == 1:
            return await super().run(node)
        for round_ in {rounds}:
            node.send(1, Message("model", round_, payload=(np.full(8, round_, np.float32),)))
            await node.sleep({apart_s})
"""


@pytest.mark.parametrize("apart_s", [0.001, 0.5])
@pytest.mark.parametrize(("rounds", "newest"), [((3, 5, 4), 5), ((1, 2, 3), 3), ((9, 8, 7), 9)])
def test_the_latest_iteration_counts_and_not_what_came_last(
    rounds: tuple[int, ...], newest: int, apart_s: float, tmp_path: Path
) -> None:
    """Within one iteration of node 1, and over several."""
    (tmp_path / "odd.py").write_text(OUT_OF_ORDER.format(rounds=rounds, apart_s=apart_s))
    world = World(2, algorithm={"name": f"{tmp_path}/odd.py:OutOfOrder"}, graph=full(2), lr=0.0, rounds=12)
    world.step_s = lambda _learner, _step: 0.2
    world.experiment = {"missing": {"after": "10s"}}
    outcome = world.run()
    assert outcome.end(1).failure is None
    expected = np.zeros(1)
    np.testing.assert_allclose(outcome.models[1][-1:], expected + newest, rtol=0.01)


SECOND_LIFE = """from testbed.node.algorithms.swift import Swift
from testbed.node.messages import Message
import numpy as np


class SecondLife(Swift):
    async def run(self, node):
        if node.rank == 1:
            return await super().run(node)
        for fields, round_, value in ({}, 50, 1.0), ({"life": 1.0}, 3, 2.0), ({"life": 1.0}, 2, 9.0), ({}, 60, 9.0):
            node.send(1, Message("model", round_, fields, (np.full(8, value, np.float32),)))
            await node.sleep(0.5)
"""


def test_models_of_a_second_life_are_newer_though_their_iterations_are_earlier(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(SECOND_LIFE)
    world = World(2, algorithm={"name": f"{tmp_path}/odd.py:SecondLife"}, graph=full(2), lr=0.0, rounds=15)
    world.step_s = lambda _learner, _step: 0.2
    world.experiment = {"missing": {"after": "10s"}}
    np.testing.assert_allclose(world.run().models[1], 2.0, rtol=1e-2)


# The end


def test_a_node_that_is_done_goes_on_broadcasting_until_its_neighbours_are_done() -> None:
    """Node 0 takes five times as long: its neighbours in the ring stay, the others need not."""
    world = World(6, algorithm=SWIFT, graph=ring(6), rounds=20)
    world.step_s = lambda learner, _step: 0.1 if learner == 0 else 0.02
    outcome = world.run()
    assert outcome.reasons == [Reason.FINISHED] * 6
    slow = outcome.rounds(0)
    assert [each.aggregated for each in slow] == [2] * 20
    assert slow[-1].t == pytest.approx(2.0)
    for rank in (1, 5):
        assert outcome.end(rank).t == pytest.approx(2.01, abs=0.001)
        assert copies(outcome, rank) >= 80, "as often as it iterated: 50 a second for 1.6 s"
        assert copies(outcome, rank) < 90
    for rank in (2, 3, 4):
        assert outcome.end(rank).t < 0.45
        assert copies(outcome, rank) <= 6
    assert outcome.ended_s < 2.1


def test_without_memory_a_slow_node_is_not_left_to_itself_at_the_end() -> None:
    for algorithm in (SWIFT, WITHOUT_MEMORY):
        world = World(2, algorithm=algorithm, graph=full(2), lr=0.0, rounds=20, first_model=apart)
        world.step_s = lambda learner, _step: 0.2 if learner == 0 else 0.02
        outcome = world.run()
        np.testing.assert_allclose(outcome.models[0], outcome.models[1], rtol=0, atol=1e-4)


def test_the_final_model_is_that_after_the_last_iteration() -> None:
    final: list[Message] = []

    def look(sender: int, _to: int, message: Message) -> None:
        if sender == 1 and message.round == 5:
            final.append(message)

    world = World(2, algorithm=SWIFT, graph=full(2), rounds=5, experiment=EVALUATED, before_shipping=look)
    world.step_s = lambda learner, _step: 0.5 if learner == 0 else 0.02
    outcome = world.run()
    note, *models = final
    assert (note.kind, note.size.payload) == ("done", 0)
    assert len(models) > 100
    for model in models:
        np.testing.assert_array_equal(model.payload[0], outcome.evaluated[1, 4])


@pytest.mark.parametrize("reason", [Reason.INTERRUPTED, Reason.LEFT])
def test_a_neighbour_that_is_gone_is_waited_for_no_longer_than_the_timeout(reason: Reason) -> None:
    world = World(4, algorithm=SWIFT, graph=ring(4), rounds=20, early=[(0.1, 3, reason)])
    world.experiment = {"missing": {"after": "3s", "then": "wait"}}
    outcome = world.run()
    assert outcome.reasons == [Reason.FINISHED] * 3 + [reason]
    assert outcome.end(1).t < 0.3
    for rank in (0, 2):
        assert outcome.rounds(rank)[-1].t == pytest.approx(0.2)
        assert outcome.end(rank).t < 3.3


COUNTING = """from testbed.node.algorithms.swift import Swift


class Counting(Swift):
    def _broadcast(self, node, to, began):
        if node.round == 10:
            node.note("copies", str(len(list(to))))
        super()._broadcast(node, to, began)
"""


def test_there_is_never_more_than_one_copy_for_a_neighbour(tmp_path: Path) -> None:
    """Not even in an outbox that sends all. Node 1 iterates in 20 ms, and a model takes 320 ms to slow node 0.

    Earlier models that have not started are dropped when the final one is there.
    """
    (tmp_path / "counting.py").write_text(COUNTING)
    arrived: list[int] = []
    world = World(2, algorithm={"name": f"{tmp_path}/counting.py:Counting"}, graph=full(2), rounds=10)
    world.dimension, world.rate_bps, world.experiment = 1000, 1e5, {"outbox": {"policy": "fifo"}}
    world.step_s = lambda learner, _step: 3.0 if learner == 0 else 0.02
    world.on_arrival = lambda sender, _to, message: arrived.append(message.round) if sender == 1 else None
    outcome = world.run()
    assert outcome.rounds(1)[-1].t == pytest.approx(0.2)
    asked = sum(int(each.detail) for each in outcome.events(1) if each.what == "copies")
    assert 80 < asked <= 1 + 30 / 0.32
    assert [round_ for round_ in arrived if round_ < 10] == [0]
    assert outcome.end(1).t < 30.5


# Mistakes


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="steps_between is at least 1, not 0"):
        Swift(steps_between=0)


def test_an_overlay_that_changes_is_refused() -> None:
    failure = World(4, algorithm=SWIFT, graph=None, degree=2).run().end(0).failure
    assert failure is not None
    assert "the same neighbours all the time" in failure.message


@pytest.mark.parametrize("sharing", [{"name": "random", "fraction": 0.3}, {"name": "topk", "fraction": 0.3}])
@pytest.mark.parametrize("memory", [True, False])
def test_parts_of_models_bring_nodes_together(sharing: Mapping[str, object], memory: bool) -> None:
    """More than half of the way from where each would be by itself."""
    world = World(6, algorithm={"name": "swift", "memory": memory}, graph=IRREGULAR, rounds=120, lr=0.05)
    world.noise, world.dimension, world.steps = 0.0, 40, 2
    world.experiment = {"sharing": sharing}
    alone = replace(world, algorithm=WITHOUT_MEMORY, lost=lambda _sender, _to, _message: True)
    alone.experiment = {"missing": {"after": "1s"}}
    assert np.ptp(world.run().models, axis=0).mean() < 0.5 * np.ptp(alone.run().models, axis=0).mean()


def test_a_part_that_came_is_averaged_and_the_rest_is_as_it_was() -> None:
    """On a full graph of two: half of the way for what came, none for the rest; with memory, as it was at first."""
    for memory in (True, False):
        world = World(2, algorithm={"name": "swift", "memory": memory}, graph=full(2), lr=0.0, rounds=1, steps=2)
        world.dimension, world.first_model = 200, lambda learner: np.full(200, float(learner), np.float32)
        world.experiment = {"sharing": {"name": "random", "fraction": 0.3}}
        for rank, model in enumerate(world.run().models):
            assert 30 < (model == 0.5).sum() < 90
            assert set(np.unique(model)) == {0.5, float(rank)}


# A crash


def test_what_neighbours_have_sent_comes_back_with_the_node(tmp_path: Path) -> None:
    world = World(3, algorithm=SWIFT, graph=CHAIN, lr=0.0, rounds=3, steps=2, first_model=apart, folders=tmp_path)
    world.experiment = {"rejoin": "last", **EVALUATED}
    before = after(world.run(), 1, 3)
    for rank in (0, 2):
        for old in (tmp_path / str(rank) / "snapshots").iterdir():
            old.unlink()  # only node 1 has one
    again = replace(world, goes_on=3, rounds=4, lost=lambda _sender, to, _message: to == 1).run()
    last = after(replace(world, folders=None, experiment=EVALUATED).run(), 2, 3)[1]
    np.testing.assert_allclose(again.models[1], (last + before[0] + before[2]) / 3, rtol=0, atol=1e-6)


def test_state_is_kept_only_with_memory(tmp_path: Path) -> None:
    for algorithm, models in ((SWIFT, 2), (WITHOUT_MEMORY, 0)):
        folder = tmp_path / str(models)
        folder.mkdir()
        World(3, algorithm=algorithm, graph=CHAIN, rounds=2, folders=folder, experiment={"rejoin": "last"}).run()
        size = sum(each.stat().st_size for each in (folder / "1" / "snapshots").iterdir() if "state" in each.name)
        assert (size > 64) == bool(models)


BACK = """from testbed.node.algorithms.swift import Swift


class Back(Swift):
    async def run(self, node):
        if node.rank == 1:
            node.come_back()
        await super().run(node)
"""


def test_a_node_that_comes_back_does_not_average_with_models_it_does_not_know(tmp_path: Path) -> None:
    """What all started from is long past: the weight of a neighbour that it has not heard is its own."""
    (tmp_path / "back.py").write_text(BACK)
    world = World(3, algorithm={"name": f"{tmp_path}/back.py:Back"}, graph=CHAIN, lr=0.0, rounds=4, steps=2)
    world.first_model, world.experiment = apart, EVALUATED
    world.lost = lambda sender, to, _message: (sender, to) == (0, 1)
    outcome = world.run()
    before = apart(1), apart(2)
    for round_ in range(4):
        np.testing.assert_allclose(outcome.evaluated[1, round_], (2 * before[0] + before[1]) / 3, rtol=0, atol=1e-6)
        before = outcome.evaluated[1, round_], outcome.evaluated[2, round_]
