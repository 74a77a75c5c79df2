"""Gossip learning: who sends what when, how models are merged, and a second implementation that must agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from testbed.node.algorithms.gossip import Gossip, _age_of
from testbed.node.messages import Message, Received, UnusableModel
from testbed.node.state import UnusableState
from testbed.seeds import stream
from tests.node.small_world import Graph, Outcome, Quadratic, World, full, ring
from tests.node.vectors import apart

MODES = ("push", "pull", "push-pull")
PERIOD_S = 1.0
EVALUATED = {"evaluation": {"every": 1, "mode": "after"}}


def gossip(
    n: int = 6, *, graph: Graph | None = None, experiment: Mapping[str, Any] | None = None, **options: Any
) -> World:
    world = World(n, algorithm={"name": "gossip", **options}, graph=graph or ring(n), rounds=12)
    world.experiment = {**EVALUATED, **(experiment or {})}
    return world


def phase_s(world: World, rank: int) -> float:
    return PERIOD_S * stream(world.seed, "phase", f"node{rank}").random()


# A second implementation


@dataclass
class _Peer:
    """One node of the second implementation."""

    model: np.ndarray
    draws: Random
    age: int = 0
    steps: int = 0
    change: np.ndarray | None = None
    """Of the training that goes on."""
    waiting: list[tuple[int, np.ndarray, int]] = field(default_factory=list)
    told: dict[int, int] = field(default_factory=dict)
    free_at_s: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """By peer: when the last message to it has arrived."""


def reference(world: World, mode: str, weights: str, busy: str) -> dict[tuple[int, int], np.ndarray]:
    """Models by rank and round: events in the order of their times, and nothing shared with what is tested."""
    assert world.graph is not None
    assert world.rounds is not None
    n, found = world.learners, {}
    learners = [Quadratic(world, None, learner) for learner in range(n)]  # type: ignore[arg-type]
    peers = [
        _Peer(learners[i].initial().astype(np.float64), stream(world.seed, "neighbour", f"node{i}")) for i in range(n)
    ]
    events: list[tuple[float, int, str, int, Any]] = []
    number = count()

    def at(t: float, what: str, who: int, more: Any = None) -> None:
        heappush(events, (t, next(number), what, who, more))

    def ship(now_s: float, sender: int, to: int, what: str, more: Any = None) -> None:
        arrives_s = max(now_s, peers[sender].free_at_s[to]) + world.latency_s(sender, to)
        peers[sender].free_at_s[to] = arrives_s
        at(arrives_s, what, to, (sender, more))

    def send_model(now_s: float, sender: int, to: int) -> None:
        me = peers[sender]
        if me.told.get(to, -1) < me.age:
            me.told[to] = me.age
            ship(now_s, sender, to, "model", (me.model.copy(), me.age))

    def learn(now_s: float, who: int) -> None:
        me = peers[who]
        if me.change is not None or not me.waiting:
            return
        came = me.waiting[-1:] if busy == "latest" else list(me.waiting)
        me.waiting.clear()
        ages = [float(age) for _, _, age in came]
        own = float(me.age)
        if weights == "average" or own + sum(ages) == 0:
            own, ages = 1.0, [1.0] * len(came)
        elif own == 0:
            own = sum(ages) / len(ages)
        me.model = (own * me.model + sum(a * x for a, (_, x, _) in zip(ages, came, strict=True))) / (own + sum(ages))
        me.age = max(me.age, *(age for _, _, age in came))
        trained, took_s = me.model.copy(), 0.0
        for step in range(me.steps, me.steps + world.steps):
            trained -= world.lr * learners[who].slope(trained.astype(np.float32), step).astype(np.float64)
            took_s += world.step_s(who, step)
        me.change = trained - me.model
        at(now_s + took_s, "trained", who)

    for rank in range(n):
        for tick in range(world.rounds + 1):
            at(phase_s(world, rank) + tick * PERIOD_S, "tick", rank, tick)
    while events:
        now_s, _, what, who, more = heappop(events)
        me = peers[who]
        match what:
            case "tick":
                if more:
                    found[who, more - 1] = me.model.copy()
                if more < world.rounds:
                    neighbour = me.draws.choice(world.graph[who])
                    if "pull" in mode:
                        ship(now_s, who, neighbour, "asked")
                    if "push" in mode:
                        send_model(now_s, who, neighbour)
            case "asked":
                send_model(now_s, who, more[0])
            case "model":
                sender, (model, age) = more
                me.waiting.append((sender, model, age))
                learn(now_s, who)
            case "trained":
                assert me.change is not None
                me.model = me.model + me.change
                me.steps += world.steps
                me.age += world.steps
                me.change = None
                learn(now_s, who)
    return found


@pytest.mark.parametrize("busy", ["latest", "queue"])
@pytest.mark.parametrize("weights", ["age", "average"])
@pytest.mark.parametrize("mode", MODES)
def test_a_second_implementation_has_the_same_models(mode: str, weights: str, busy: str) -> None:
    """Two nodes need longer for their training than a period, so that models wait for them."""
    world = gossip(
        graph=[[1, 2, 3], [0, 2], [0, 1, 3, 4], [0, 2, 5], [2, 5], [3, 4]], mode=mode, weights=weights, busy=busy
    )
    world.steps, world.rounds, world.rate_bps, world.first_model = 3, 25, 1e15, apart
    world.step_s = lambda learner, step: (0.61 if learner < 2 else 0.017) + 0.001 * (step % 3)
    world.latency_s = lambda sender, to: 0.05 + 0.013 * sender + 0.007 * to
    outcome, expected = world.run(), reference(world, mode, weights, busy)
    rounds = world.rounds - 1  # in the last one, nodes that are done are not drawn any more
    for rank in range(6):
        for round_ in range(rounds):
            np.testing.assert_allclose(outcome.evaluated[rank, round_], expected[rank, round_], rtol=0, atol=1e-5)
    assert len({expected[rank, rounds - 1].tobytes() for rank in range(6)}) == 6
    late = sum(each.expired for rank in range(6) for each in outcome.rounds(rank))
    assert (late > 0) == (busy == "latest")


# Merging


@pytest.mark.parametrize(
    ("weights", "own", "ages", "expected"),
    [
        ("age", 30, [10], [0.25]),
        ("age", 30, [10, 20], [1 / 6, 1 / 3]),
        ("age", 0, [0], [0.5]),
        ("age", 0, [0, 0, 0], [0.25, 0.25, 0.25]),
        ("age", 7, [0], [0.0]),
        ("age", 0, [7], [0.5]),
        ("age", 0, [5, 15], [1 / 6, 1 / 2]),
        ("average", 30, [10], [0.5]),
        ("average", 0, [7, 9], [1 / 3, 1 / 3]),
    ],
)
def test_models_count_by_their_age(weights: str, own: int, ages: list[int], expected: list[float]) -> None:
    """A model without age is not overwritten, and one that comes without age changes nothing."""
    algorithm = Gossip(weights=weights)
    algorithm.age = own
    assert algorithm._weights_of(ages) == pytest.approx(expected)


def ages_sent(world: World) -> tuple[Outcome, list[tuple[int, int, int]]]:
    """Sender, recipient and age of every model that is sent."""
    sent = []

    def ship(sender: int, to: int, message: Message) -> None:
        if message.payload:
            age = message.fields["age"]
            assert isinstance(age, int)
            sent.append((sender, to, age))

    world.before_shipping = ship
    return world.run(), sent


@pytest.mark.parametrize("mode", MODES)
def test_the_age_is_the_number_of_local_steps_behind_a_model(mode: str) -> None:
    world = gossip(mode=mode)
    world.steps = 4
    outcome, sent = ages_sent(world)
    assert min(age for _, _, age in sent) == 0, "all begin with the same model"
    assert {age % 4 for _, _, age in sent} == {0}
    for rank in range(6):
        mine = [age for sender, _, age in sent if sender == rank]
        assert mine == sorted(mine)
    # It is the larger one of two models that are merged, not their sum: nothing is counted twice.
    trained = sum(each.steps for rank in range(6) for each in outcome.rounds(rank))
    assert 20 <= max(age for _, _, age in sent) <= trained


@pytest.mark.parametrize("mode", MODES)
def test_every_merge_is_followed_by_training_and_nothing_else_is(mode: str) -> None:
    world = gossip(mode=mode)
    world.steps = 4
    outcome = world.run()
    for rank in range(6):
        steps, merged = (sum(getattr(each, what) for each in outcome.rounds(rank)) for what in ("steps", "aggregated"))
        assert steps > 20
        assert steps in (4 * merged, 4 * (merged - 1)), "the last training may not be over"


@pytest.mark.parametrize("mode", MODES)
def test_the_same_model_is_not_sent_to_the_same_neighbour_twice(mode: str) -> None:
    world = gossip(mode=mode)
    world.rounds = 40
    outcome, sent = ages_sent(world)
    assert len(set(sent)) == len(sent)
    skipped = 6 * 40 * len(set(mode.split("-"))) - outcome.shipped.messages
    assert skipped > 0 or mode != "push"
    for rank in range(6):
        for neighbour in ring(6)[rank]:
            ages = [age for sender, to, age in sent if (sender, to) == (rank, neighbour)]
            assert all(before < after for before, after in pairwise(ages))


def test_a_node_that_has_learned_nothing_new_does_not_send() -> None:
    """Nothing ever arrives: one model for each neighbour is all that there is to say."""
    world = gossip(4, graph=full(4))
    world.rounds, world.lost = 60, lambda _sender, _to, _message: True
    outcome = world.run()
    assert outcome.shipped.messages == 4 * 3
    assert all(record.steps == 0 for rank in range(4) for record in outcome.rounds(rank))


def test_an_answer_has_the_model_from_before_the_merge() -> None:
    """Then two nodes have exactly the mean; after a merge, the one that asked would have more of its own."""
    world = gossip(2, mode="push-pull", weights="average")
    world.lr, world.rounds, world.first_model = 0.0, 1, apart
    outcome = world.run()
    for model in outcome.models:
        np.testing.assert_allclose(model, (apart(0) + apart(1)) / 2, rtol=0, atol=1e-6)


def test_busy_nodes_merge_the_last_model_or_all_of_them() -> None:
    """Five neighbours send to a node that trains for six periods."""
    star: Graph = [[1, 2, 3, 4, 5], [0], [0], [0], [0], [0]]
    merged = {}
    for busy in ("latest", "queue"):
        world = gossip(graph=star, busy=busy)
        world.rounds, world.step_s = 14, lambda learner, _step: 6.0 if learner == 0 else 0.01
        outcome = world.run()
        records = outcome.rounds(0)
        merged[busy] = [sum(getattr(each, what) for each in records) for what in ("steps", "aggregated", "expired")]
        steps, aggregated, expired = merged[busy]
        assert (aggregated == 1 + steps, expired > 3) == ((True, True) if busy == "latest" else (False, False))
    assert merged["queue"][1] == merged["latest"][1] + merged["latest"][2]


@pytest.mark.parametrize("age", [None, -1, 2.0, True, "5"])
def test_a_model_without_a_usable_age_is_refused_with_its_sender(age: object) -> None:
    fields: dict[str, Any] = {} if age is None else {"age": age}
    with pytest.raises(UnusableModel, match="rank 3 sent a model that cannot be used: a model of the age"):
        _age_of(Received(3, Message("model", 0, fields)))


# Periods


@pytest.mark.parametrize("mode", MODES)
def test_a_round_is_a_period_whatever_happens_in_it(mode: str) -> None:
    """Nodes begin at random times of the first period; neither training nor a silent neighbour moves them."""
    world = gossip(mode=mode, experiment={"missing": {"after": "2s", "then": "skip"}})
    world.step_s = lambda learner, _step: 3.3 if learner == 1 else 0.01
    world.lost = lambda sender, to, _message: 0 in (sender, to)
    outcome = world.run()
    phases = [phase_s(world, rank) for rank in range(6)]
    assert min(phases) < 0.3
    assert max(phases) > 0.6
    for rank in range(6):
        ends = [record.t for record in outcome.rounds(rank)]
        np.testing.assert_allclose(ends, phases[rank] + PERIOD_S * np.arange(1, 13))
        waits = [record.phases.wait for record in outcome.rounds(rank)]
        np.testing.assert_allclose(waits, [phases[rank] + PERIOD_S, *[PERIOD_S] * 11])
        assert outcome.end(rank).reason == "finished"
    assert not outcome.rounds(0)[-1].received.payload
    assert all(sum(record.steps for record in outcome.rounds(rank)) > 0 for rank in range(1, 6))


@pytest.mark.parametrize(("mode", "models", "requests"), [("push", 1, 0), ("pull", 1, 1), ("push-pull", 2, 1)])
def test_every_byte_is_known_beforehand(mode: str, models: int, requests: int) -> None:
    """While all nodes learn something in every period; requests are control bytes."""
    world = gossip(2, mode=mode)
    world.rounds, world.dimension = 6, 100
    outcome = world.run()
    for rank in range(2):
        end = outcome.end(rank)
        request = len(Message("pull", 0).header)
        assert end.sent.payload == 400 * (end.sent.messages - requests * 6)
        assert end.sent.control == requests * 6 * request
        assert 0 < end.sent.payload <= models * 6 * 400
        assert end.sent.metadata <= 40 * models * 6


def test_without_training_nodes_come_to_agree() -> None:
    for mode in MODES:
        world = gossip(mode=mode, weights="average")
        world.lr, world.rounds, world.first_model = 0.0, 40, apart
        spread = np.std(world.run().models, axis=0).max()
        assert spread < 0.02 * np.std([apart(learner) for learner in range(6)], axis=0).max()


def test_a_node_without_neighbours_ends_in_time() -> None:
    outcome = gossip(2, graph=[[], []], mode="push-pull").run()
    assert [outcome.end(rank).reason for rank in range(2)] == ["finished"] * 2
    assert outcome.shipped.messages == 0


# What is remembered


def test_the_age_comes_back_and_what_was_sent_to_whom_does_not(tmp_path: Path) -> None:
    """A node that came back sends at once, so that neighbours that have nothing new go on."""
    world = gossip(2, experiment={"snapshots": {"every": 1}})
    world.folders = tmp_path
    world.run()
    world.goes_on, world.rounds = 12, 13
    _, sent = ages_sent(world)
    ages = {sender: age for sender, _, age in sent}
    assert len(ages) == 2
    assert min(ages.values()) >= 5
    remembered = Gossip()
    remembered.age = 12
    fresh = Gossip()
    fresh.restore(remembered.state())
    assert fresh.age == 12
    with pytest.raises(UnusableState, match="`age` is no whole number"):
        fresh.restore({"age": -1})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "shove"}, "mode is one of push, pull, push-pull"),
        ({"weights": "samples"}, "weights one of age, average"),
        ({"busy": "drop"}, "busy one of latest, queue"),
        ({"period": 0.0}, "period is above 0 seconds"),
        ({"period": float("nan")}, "period is above 0 seconds"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Gossip(**options)
