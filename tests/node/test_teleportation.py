"""Teleportation: whose turn it is, a second implementation that must agree, and what the paper's algorithm keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.node.active_nodes import active_nodes
from testbed.node.algorithms.teleportation import Teleportation
from testbed.node.life import Reason
from testbed.node.messages import Message
from testbed.node.turns import BACK, DONE, HANDED, SKIPPED
from tests.node.small_world import Outcome, Quadratic, World, full

EVALUATED = {"evaluation": {"every": 1, "mode": "after"}}
SKIP = {"missing": {"after": "1s", "then": "skip"}}


def teleportation(n: int = 6, *, experiment: Mapping[str, Any] | None = None, **options: Any) -> World:
    world = World(n, algorithm={"name": "teleportation", **options}, rounds=12)
    world.experiment = {**EVALUATED, **(experiment or {})}
    return world


def apart(learner: int) -> np.ndarray:
    return np.random.default_rng(100 + learner).normal(size=8).astype(np.float32)


def active_in(world: World, round_: int, active: int) -> tuple[int, ...]:
    return active_nodes(world.seed, tuple(range(world.learners)), round_, active)


def by_position(world: World, outcome: Outcome, round_: int, active: int) -> np.ndarray:
    return np.array([outcome.evaluated[rank, round_] for rank in active_in(world, round_, active)], np.float64)


# Whose turn it is


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 50), st.integers(0, 9))
def test_the_active_nodes_are_the_first_ones_of_an_order(nodes: int, active: int, round_: int, seed: int) -> None:
    learners = tuple(range(2, 2 + nodes))
    chosen = active_nodes(seed, learners, round_, active)
    assert len(set(chosen)) == len(chosen) == min(active, nodes)
    assert set(chosen) <= set(learners)
    assert active_nodes(seed, learners, round_, active + 1)[:active] == chosen
    without = tuple(rank for rank in learners if rank != chosen[-1])
    assert active_nodes(seed, without, round_, active)[: len(chosen) - 1] == chosen[:-1], "a node counts for itself"


def test_every_node_is_active_as_often_and_otherwise_with_another_seed() -> None:
    learners = tuple(range(10))
    rounds = {seed: [active_nodes(seed, learners, round_, 3) for round_ in range(400)] for seed in (1, 2)}
    often = Counter(rank for active in rounds[1] for rank in active)
    # 400 draws with chance 0.3: 120 expected, standard deviation 9.2.
    assert 85 < min(often.values()) <= max(often.values()) < 155
    assert rounds[1] != rounds[2]
    assert len(set(rounds[1])) > 200


def test_a_node_works_in_its_turns_only() -> None:
    """Journals and evaluations have the rounds of the run, for each node those in which it was active."""
    world = teleportation(active=2)
    world.rounds, world.steps = 20, 3
    outcome = world.run()
    for rank in range(6):
        turns = [round_ for round_ in range(20) if rank in active_in(world, round_, 2)]
        assert [record.round for record in outcome.rounds(rank)] == turns
        assert [record.steps for record in outcome.rounds(rank)] == [3] * len(turns)
        assert sorted(round_ for node, round_ in outcome.evaluated if node == rank) == turns
        assert outcome.end(rank).reason == "finished"
        assert not outcome.events(rank)


def test_a_node_without_a_turn_finishes_at_once() -> None:
    world = teleportation(active=1)
    world.rounds = 2
    outcome = world.run()
    idle = set(range(6)) - {active_in(world, round_, 1)[0] for round_ in range(2)}
    assert idle
    for rank in idle:
        assert (outcome.end(rank).reason, outcome.end(rank).t, outcome.end(rank).steps) == ("finished", 0.0, 0)


# A second implementation


def reference(world: World, active: int, graph: str) -> list[np.ndarray]:
    """Models by round and position: Metropolis-Hastings weights on a graph where all have equal degrees."""
    assert world.rounds is not None
    learners = [Quadratic(world, None, learner) for learner in range(world.learners)]  # type: ignore[arg-type]
    k = min(active, world.learners)
    weights = np.zeros((k, k))
    for one in range(k):
        for other in range(k):
            distance = min((one - other) % k, (other - one) % k)
            weights[one, other] = 1.0 if distance <= (1 if graph == "ring" else k) else 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    steps = [0] * world.learners
    models = [learners[rank].initial().astype(np.float64) for rank in active_in(world, 0, k)]
    found = []
    for round_ in range(world.rounds):
        for position, rank in enumerate(active_in(world, round_, k)):
            for _ in range(world.steps):
                slope = learners[rank].slope(models[position].astype(np.float32), steps[rank])
                models[position] = models[position] - world.lr * slope.astype(np.float64)
                steps[rank] += 1
        models = list(weights @ np.array(models))
        found.append(np.array(models))
    return found


@pytest.mark.parametrize("graph", ["ring", "full"])
@pytest.mark.parametrize("active", [1, 2, 3, 5, 6, 9])
def test_a_second_implementation_has_the_same_models(active: int, graph: str) -> None:
    """Nodes differ much in speed: a model that comes before a node's own training is done waits for it."""
    world = teleportation(active=active, graph=graph)
    world.rounds, world.steps, world.first_model = 20, 3, apart
    world.step_s = lambda learner, _step: 0.001 * 3**learner
    world.latency_s = lambda sender, to: 0.01 + 0.05 * ((3 * sender + to) % 5)
    outcome, expected = world.run(), reference(world, active, graph)
    for round_ in range(20):
        found = by_position(world, outcome, round_, min(active, 6))
        np.testing.assert_allclose(found, expected[round_], rtol=0, atol=1e-5)
    assert not any(outcome.events(rank) for rank in range(6))


def test_one_active_node_is_gradient_descent_that_walks() -> None:
    """It has no neighbours to wait for."""
    world = teleportation(active=1)
    outcome = world.run()
    assert outcome.shipped.payload == 4 * 8 * sum(
        active_in(world, round_, 1) != active_in(world, round_ + 1, 1) for round_ in range(11)
    )


def test_with_all_nodes_in_a_full_graph_it_is_dpsgd() -> None:
    """After the average all models are the same, so it does not matter where they go."""
    outcome = teleportation(active=6, graph="full").run()
    everybody = World(6, graph=full(6), rounds=12, experiment=EVALUATED).run()
    for round_ in range(12):
        for rank in range(6):
            np.testing.assert_allclose(
                outcome.evaluated[rank, round_], everybody.evaluated[rank, round_], rtol=0, atol=1e-5
            )


# What the averaging keeps


def test_without_training_the_mean_stays_and_the_spread_falls_by_the_graph_of_positions() -> None:
    """On a ring of five, whatever the number of nodes: the second eigenvalue is (1 + 2 cos 72°) / 3."""
    for n in (6, 17):
        world = teleportation(n, active=5)
        world.lr, world.rounds, world.first_model = 0.0, 16, apart
        outcome = world.run()
        start = np.array([apart(rank) for rank in active_in(world, 0, 5)], np.float64)
        spread = []
        for round_ in range(16):
            models = by_position(world, outcome, round_, 5)
            np.testing.assert_allclose(models.mean(axis=0), start.mean(axis=0), rtol=0, atol=1e-6)
            spread.append(models.var(axis=0).sum())
        second = (1 + 2 * np.cos(np.radians(72))) / 3
        assert (spread[7] / spread[2]) ** (1 / 5) == pytest.approx(second**2, rel=0.02)


def test_every_byte_is_known_beforehand() -> None:
    world = teleportation(active=4)
    world.rounds, world.dimension = 15, 50
    outcome = world.run()
    rounds = [active_in(world, round_, 4) for round_ in range(15)]
    handed = sum(one != other for before, after in pairwise(rounds) for one, other in zip(before, after, strict=True))
    assert outcome.shipped.payload == 200 * (handed + 15 * 4 * 2)
    assert outcome.shipped.messages == 2 * handed + 15 * 4 * 2
    assert outcome.shipped.control == handed * len(Message(DONE, 0).header)


# Nodes that are gone


def silent(world: World, rank: int) -> World:
    world.lost = lambda sender, to, _message: rank in (sender, to)
    return world


def seed_where(active: int, round_: int, *, takes_part: bool) -> int:
    """A seed with which node 2 is active in a round, or is not."""
    learners = tuple(range(6))
    return next(seed for seed in range(99) if (2 in active_nodes(seed, learners, round_, active)) == takes_part)


@pytest.mark.parametrize("active", [1, 3])
@pytest.mark.parametrize("in_round_0", [True, False])
def test_a_silent_node_costs_timeouts_in_its_turns_and_nothing_else(active: int, in_round_0: bool) -> None:
    """Its model goes on with the node after it: all others do all of their turns. So they do if it had the first."""
    world = silent(teleportation(active=active, experiment=SKIP), 2)
    world.seed = seed_where(active, 0, takes_part=in_round_0)
    outcome = world.run()
    its_turns = [round_ for round_ in range(1, 12) if 2 in active_in(world, round_, active)]
    assert its_turns
    for rank in (0, 1, 3, 4, 5):
        turns = [round_ for round_ in range(12) if rank in active_in(world, round_, active)]
        assert outcome.end(rank).reason == "finished"
        assert [record.round for record in outcome.rounds(rank)] == turns
    assert max(outcome.end(rank).t for rank in (0, 1, 3, 4, 5)) < 3 * len(its_turns) + 10 * in_round_0
    told = [event.detail for rank in (0, 1, 3, 4, 5) for event in outcome.events(rank)]
    assert any("node2 did not hand on its model: skip" in words for words in told)
    assert any("no model came: skip" in words for words in told) or not in_round_0


def test_a_lost_model_goes_on_as_it_was_handed_to_the_silent_node() -> None:
    """Nothing of what that one did is in it, and all that was done before."""
    world = teleportation(active=1, experiment=SKIP)
    before, lost, after = (active_in(world, round_, 1)[0] for round_ in (2, 3, 4))
    assert lost not in {active_in(world, round_, 1)[0] for round_ in (0, 1, 2, 4)}
    outcome = silent(world, lost).run()
    learner = Quadratic(world, None, after)  # type: ignore[arg-type]
    done = sum(active_in(world, round_, 1)[0] == after for round_ in range(4))
    expected = outcome.evaluated[before, 2] - np.float32(0.1) * learner.slope(outcome.evaluated[before, 2], done)
    np.testing.assert_allclose(outcome.evaluated[after, 4], expected, rtol=0, atol=1e-6)


def test_a_node_that_leaves_is_passed_over_without_a_timeout() -> None:
    world = teleportation(active=2, experiment={"missing": {"after": "100s", "then": "wait"}})
    world.rounds, world.early = 30, ((0.1, 2, Reason.LEFT),)
    outcome = world.run()
    assert [outcome.end(rank).reason for rank in range(6)] == ["finished", "finished", "left", *["finished"] * 3]
    assert outcome.ended_s < 5
    assert max(record.round for rank in range(6) for record in outcome.rounds(rank)) == 29


def test_the_experiment_may_end_where_a_node_is_silent() -> None:
    world = silent(teleportation(active=1, experiment={"missing": {"after": "1s", "then": "abort"}}), 2)
    failures = [outcome_end.failure for rank in range(6) if (outcome_end := world.run().end(rank)).failure is not None]
    assert failures
    assert "node2 did not hand on its model" in failures[0].message


def test_a_slow_node_is_told_that_its_turn_is_over() -> None:
    """It takes longer than twice the timeout to train, ends its turn all the same, and nothing is counted twice."""
    world = teleportation(active=1, experiment=SKIP)
    world.rounds = 12
    world.step_s = lambda learner, _step: 5.0 if learner == 2 else 0.01
    kinds: Counter[tuple[str, int]] = Counter()
    world.before_shipping = lambda _sender, to, message: kinds.update([(message.kind, to)])
    outcome = world.run()
    assert kinds[SKIPPED, 2] >= 1
    assert [outcome.end(rank).reason for rank in range(6)] == ["finished"] * 6
    rounds = Counter(record.round for rank in range(6) for record in outcome.rounds(rank))
    assert set(rounds.values()) == {1}, "no round is done twice at one position"


# What is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [({"active": 0}, "active is at least 1"), ({"graph": "star"}, "graph is one of ring, full")],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Teleportation(**options)


def test_a_model_for_another_node_is_refused_with_its_sender() -> None:
    world = teleportation(active=1)
    to, wrong = (
        active_in(world, 1, 1)[0],
        next(r for r in range(2, 12) if active_in(world, r, 1) != active_in(world, 1, 1)),
    )
    sent: list[Message] = []

    def falsify(_sender: int, rank: int, message: Message) -> None:
        if message.kind == HANDED and rank == to and not sent:
            sent.append(message)
            object.__setattr__(message, "round", wrong)
            message.__dict__.pop("header", None)

    world.before_shipping = falsify
    failure = world.run().end(to).failure
    assert failure is not None
    assert f"it is for round {wrong}, in which this node does not work" in failure.message
    assert {BACK, DONE, HANDED, SKIPPED} == {"turn-again", "turn-done", "handed-on", "turn-skipped"}
