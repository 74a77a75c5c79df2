"""Plexus: who is sampled, what is averaged, and that no crash stops it for ever."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.node.active_nodes import active_nodes
from testbed.node.algorithms.plexus import AGGREGATED, COLLECTED, TRAINED, Plexus
from testbed.node.collecting import Collection
from testbed.node.fragments import Fragmentation
from testbed.node.life import Reason
from testbed.node.messages import Message, Received, UnusableModel
from testbed.node.state import UnusableState
from tests.node.crashing_world import Crash, CrashingWorld
from tests.node.small_world import Outcome, Quadratic, World
from tests.node.vectors import vector

OPTIONS = (
    "sample",
    "success_fraction",
    "aggregate",
    "fragments",
    "ping_timeout",
    "inactivity",
    "aggregation_timeout",
)
PATIENT = {"ping_timeout": "200ms", "aggregation_timeout": "1s"}
STALLED_S = 2.0
BOTH = pytest.mark.parametrize("aggregate", ["one", "all"])


def world(n: int, name: str = "plexus", **more: Any) -> World:
    options: dict[str, object] = {each: more.pop(each) for each in OPTIONS if each in more}
    experiment = {"evaluation": {"every": 1, "mode": "after"}, **more.pop("experiment", {})}
    return World(n, algorithm={"name": name, **options}, experiment=experiment, **more)


def ordered(scene: World, round_: int) -> tuple[int, ...]:
    return active_nodes(scene.seed, tuple(range(scene.learners)), round_, scene.learners)


def worked(outcome: Outcome, n: int) -> dict[int, set[int]]:
    """Who trained in which round."""
    found: dict[int, set[int]] = {}
    for rank in range(n):
        for each in outcome.rounds(rank):
            found.setdefault(each.round, set()).add(rank)
    return found


def ended_well(outcome: Outcome, ranks: Any, rounds: int) -> None:
    for rank in ranks:
        assert outcome.reasons[rank] is Reason.FINISHED, outcome.end(rank).failure
        ends = [each for each in outcome.records(rank) if type(each).__name__ == "End"]
        assert ends[-1].rounds == rounds  # type: ignore[union-attr]


# -- what it is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("aggregate", "fragments"), [("one", 8), ("all", 1), ("all", 5)])
@pytest.mark.parametrize("sample", [3, 6])
def test_every_model_is_what_the_formula_says(aggregate: str, fragments: int, sample: int) -> None:
    """A second implementation: x of round t + 1 is the mean of what the sample of round t makes of x of round t."""
    n, rounds, size = 6, 9, 23
    scene = world(n, sample=sample, success_fraction=1.0, aggregate=aggregate, fragments=fragments, rounds=rounds)
    scene.dimension, scene.steps = size, 2
    scene.first_model = lambda _learner: vector(size, 5)
    scene.step_s = lambda learner, _step: 0.01 * (1 + learner)
    outcome = scene.run()
    learners = [Quadratic(scene, None, rank) for rank in range(n)]  # type: ignore[arg-type]
    model, steps = vector(size, 5).astype(np.float64), Counter[int]()
    for round_ in range(rounds):
        trained = []
        for rank in ordered(scene, round_)[:sample]:
            mine = model.copy()
            for _ in range(2):
                mine -= 0.1 * learners[rank].slope(mine.astype(np.float32), steps[rank])
                steps[rank] += 1
            trained.append(mine)
        model = np.mean(trained, axis=0)
        seen = [outcome.evaluated[rank, round_] for rank in range(n) if (rank, round_) in outcome.evaluated]
        assert len(seen) >= (n if round_ == rounds - 1 else sample)
        for each in seen:
            np.testing.assert_allclose(each, model, rtol=0, atol=1e-5)
    assert worked(outcome, n) == {round_: set(ordered(scene, round_)[:sample]) for round_ in range(rounds)}


def test_with_all_nodes_it_is_federated_averaging() -> None:
    ours = world(4, success_fraction=1.0, rounds=5).run()
    theirs = world(4, "fedavg", rounds=5, server=True, samples=lambda _learner: 7).run()
    for round_ in range(5):
        np.testing.assert_allclose(ours.evaluated[2, round_], theirs.evaluated[0, round_], rtol=0, atol=1e-6)


@BOTH
def test_one_node_alone_is_plain_gradient_descent(aggregate: str) -> None:
    expected = World(1, graph=[[]], rounds=5).run().models[0]
    outcome = world(1, aggregate=aggregate, rounds=5).run()
    np.testing.assert_allclose(outcome.models[0], expected, rtol=0, atol=1e-6)
    assert outcome.shipped.messages == 0


@BOTH
def test_all_nodes_end_with_the_same_model_and_are_judged_by_it(aggregate: str) -> None:
    n, rounds = 9, 7
    outcome = world(n, sample=3, aggregate=aggregate, rounds=rounds).run()
    ended_well(outcome, range(n), rounds)
    for rank in range(n):
        assert outcome.models[rank].tobytes() == outcome.models[0].tobytes()
        assert outcome.evaluated[rank, rounds - 1].tobytes() == outcome.models[0].tobytes()


def test_models_go_to_the_aggregator_and_from_it_to_the_next_sample() -> None:
    n, sample, rounds = 8, 3, 6
    scene = world(n, sample=sample, success_fraction=1.0, rounds=rounds)
    sent: dict[str, set[tuple[int, int, int]]] = {AGGREGATED: set(), TRAINED: set()}

    def ship(sender: int, to: int, message: Message) -> None:
        if message.payload:
            sent[message.kind].add((message.round, sender, to))

    scene.before_shipping = ship
    outcome = scene.run()
    models = 0
    for round_ in range(1, rounds + 1):
        aggregator, *others = ordered(scene, round_)[: sample if round_ < rounds else n]
        trained = set(ordered(scene, round_ - 1)[:sample]) - {aggregator}
        assert {each for each in sent[TRAINED] if each[0] == round_} == {(round_, rank, aggregator) for rank in trained}
        assert {each for each in sent[AGGREGATED] if each[0] == round_} == {(round_, aggregator, to) for to in others}
        models += len(trained) + len(others)
    assert outcome.shipped.payload == models * 4 * 8


def test_pings_and_views_are_control_bytes() -> None:
    outcome = world(6, sample=3, success_fraction=1.0, rounds=4).run()
    assert outcome.shipped.control > 0
    payload_headers = outcome.shipped.metadata / (outcome.shipped.payload / 32)
    assert payload_headers < 80, "views are not in the messages that carry models"


# -- enough models -------------------------------------------------------------------------------------------------


def test_an_aggregator_goes_on_when_enough_models_are_there() -> None:
    """One of five takes two seconds: four are four fifths of them."""
    scene = world(5, rounds=6, success_fraction=0.8)
    scene.step_s = lambda learner, _step: 2.0 if learner == 3 else 0.01
    outcome = scene.run()
    ended_well(outcome, range(5), 6)
    assert outcome.end(0).t < 1.0
    assert len(outcome.rounds(3)) < 3
    everyone = world(5, rounds=2, success_fraction=1.0, step_s=scene.step_s).run()
    assert everyone.end(0).t > 4.0


def test_a_late_model_is_not_averaged_and_its_sender_is_told() -> None:
    scene = world(5, rounds=8, success_fraction=0.8)
    scene.step_s = lambda learner, _step: 0.07 if learner == 3 else 0.01
    said = Counter[str]()

    def ship(sender: int, to: int, message: Message) -> None:
        said["sent"] += sender == 3 and message.kind == TRAINED and message.round < 8
        said["told"] += to == 3 and message.kind == COLLECTED

    scene.before_shipping = ship
    outcome = scene.run()
    ended_well(outcome, range(5), 8)
    assert said["told"] == said["sent"] > 0
    assert outcome.ended_s < 1.5


def test_what_has_come_in_time_is_averaged() -> None:
    """Two of four never come: the aggregator waits for its timeout, in every round."""
    scene = world(4, rounds=2, success_fraction=1.0, **PATIENT)
    scene.lost = lambda sender, _to, message: sender in (1, 2) and message.kind == TRAINED
    outcome = scene.run()
    ended_well(outcome, range(4), 2)
    timeouts = [each for rank in range(4) for each in outcome.events(rank) if each.what == "aggregation-timeout"]
    assert timeouts
    assert 1.0 < outcome.ended_s < 10.0


# -- nodes that go -------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("then", ["skip", "wait"])
@pytest.mark.parametrize("t", [0.005, 0.025, 0.035, 0.055, 0.075, 0.095])
def test_any_crash_of_any_node_costs_no_more_than_timeouts(t: float, then: str, aggregate: str) -> None:
    """In whatever part of a round: a participant, an aggregator, or a node that does nothing."""
    missing = {"missing": {"after": "1s", "then": then}}
    for rank in range(5):
        scene = world(5, sample=3, aggregate=aggregate, rounds=6, experiment=missing, **PATIENT)
        outcome = CrashingWorld(scene, [Crash(t, rank)]).run()
        ended_well(outcome, set(range(5)) - {rank}, 6)
        assert max(outcome.end(each).t for each in range(5) if each != rank) < 15.0


@BOTH
def test_a_sample_that_crashes_as_a_whole_is_replaced(aggregate: str) -> None:
    scene = world(8, sample=3, aggregate=aggregate, rounds=6, step_s=lambda _learner, _step: 0.05, **PATIENT)
    third = ordered(scene, 2)[:3]
    began: dict[int, list[float]] = {rank: [] for rank in range(8)}

    def note(rank: int, _step: int, _steps: int, is_over: bool) -> None:
        if not is_over:
            assert scene.clock is not None
            began[rank].append(scene.clock.now())

    scene.on_training = note
    scene.run()
    before = {rank: sum(rank in ordered(scene, round_)[:3] for round_ in (0, 1)) for rank in third}
    at = max(began[rank][before[rank]] for rank in third) + 0.03
    scene.on_training = World(1).on_training
    outcome = CrashingWorld(scene, [Crash(at, rank) for rank in third]).run()
    living = set(range(8)) - set(third)
    ended_well(outcome, living, 6)
    took_over = [each for rank in living for each in outcome.events(rank) if each.what == "took-over"]
    assert 1 <= len(took_over) <= 2
    assert STALLED_S < max(outcome.end(rank).t for rank in living) < 20.0


@BOTH
@pytest.mark.parametrize("rejoin", ["fresh", "last"])
def test_a_node_that_comes_back_works_again(rejoin: str, aggregate: str, tmp_path: Path) -> None:
    scene = world(5, sample=3, aggregate=aggregate, rounds=40, folders=tmp_path, **PATIENT)
    scene.experiment = {**scene.experiment, "rejoin": rejoin, "snapshots": {"every": 1}}
    outcome = CrashingWorld(scene, [Crash(0.3, 2, 0.5, rejoin)]).run()
    ended_well(outcome, range(5), 40)
    again = [each for each in outcome.rounds(2) if each.t > 0.8]
    assert len(again) > 5
    spread = np.ptp(np.array(outcome.models), axis=0).max()
    assert spread == 0 if aggregate == "one" else spread < 0.1, "nodes of a sample may get other models in time"


def with_another_aggregator() -> int:
    """A seed with which the aggregator of the first three of eight nodes is none of them."""
    ranks = tuple(range(8))
    return next(
        seed for seed in range(100) if active_nodes(seed, ranks, 1, 1)[0] not in active_nodes(seed, ranks, 0, 3)
    )


def test_an_aggregator_that_has_lost_its_models_gets_them_again() -> None:
    """It is back before anyone asks; without another copy of the models, it would wait for its timeout."""
    scene = world(8, sample=3, success_fraction=1.0, rounds=3, ping_timeout="200ms", aggregation_timeout="60s")
    scene.seed = with_another_aggregator()
    aggregator, slow = ordered(scene, 1)[0], ordered(scene, 0)[0]
    scene.step_s = lambda learner, step: 0.5 if learner == slow and not step else 0.01
    outcome = CrashingWorld(scene, [Crash(0.1, aggregator, 0.05)]).run()
    ended_well(outcome, range(8), 3)
    assert outcome.ended_s < 3.0
    assert ordered(scene, 1)[0] == aggregator in worked(outcome, 8)[1]


def test_an_aggregator_that_does_not_take_models_is_passed_over() -> None:
    """It answers pings, but has nothing of what was sent to it."""
    scene = world(8, sample=3, success_fraction=1.0, rounds=3, ping_timeout="200ms", aggregation_timeout="60s")
    scene.seed = with_another_aggregator()
    first = ordered(scene, 1)[0]
    scene.lost = lambda _sender, to, message: message.kind == TRAINED and message.round == 1 and to == first
    scene.early = [(30.0, rank, Reason.STOPPED) for rank in range(8)]
    outcome = scene.run()
    ended_well(outcome, range(8), 3)
    assert outcome.ended_s < 5.0


def test_the_last_node_goes_on_alone() -> None:
    scene = world(4, sample=3, rounds=8, **PATIENT)
    outcome = CrashingWorld(scene, [Crash(0.2, rank) for rank in (0, 1, 3)]).run()
    ended_well(outcome, [2], 8)
    left = world(4, sample=3, rounds=8, **PATIENT)
    left.early = [(0.2, rank, Reason.LEFT) for rank in (0, 1, 3)]
    late: list[int] = []

    def ship(_sender: int, to: int, _message: Message) -> None:
        assert left.clock is not None
        late.extend([to] if left.clock.now() > 0.25 else [])

    left.before_shipping = ship
    alone = left.run()
    assert not late, "not even asked"
    ended_well(alone, [2], 8)
    assert alone.end(2).t < 1.5, "nodes that have left are not waited for"


def test_nodes_that_are_silent_for_long_are_asked_last() -> None:
    """Until then each costs a ping's timeout in rounds in which it would be sampled."""
    missing = {"missing": {"after": "100s", "then": "skip"}}
    ends = []
    for inactivity in (2, 50):
        scene = world(6, sample=3, rounds=30, inactivity=inactivity, experiment=missing, **PATIENT)
        outcome = CrashingWorld(scene, [Crash(0.1, 4)]).run()
        ended_well(outcome, [0, 1, 2, 3, 5], 30)
        ends.append(outcome.end(0).t)
    assert ends[0] + 1.0 < ends[1]


# -- options and state ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields", [{"part": 1}, {"part": -1}, {"part": "0"}, {"trained": 0}, {"trained": True}, {"trained": None}]
)
def test_a_model_that_says_something_else_is_refused_by_name(fields: dict[str, Any]) -> None:
    fragments = Fragmentation(8, 1, 1)
    collection = Collection(fragments)
    (whole,) = fragments.cut(vector(8), 1)
    collection.add(Received(3, whole.with_fields(trained=2)))
    assert not collection.is_enough(1.0)
    assert collection.is_enough(0.5)
    given = {key: value for key, value in {**whole.fields, "trained": 2, **fields}.items() if value is not None}

    def take() -> bool:
        collection.add(Received(4, Message(TRAINED, 1, given, whole.payload)))
        return collection.is_enough(1.0)

    with pytest.raises(UnusableModel, match="rank 4"):
        take()


@pytest.mark.parametrize("sampled", [None, [], ["a"], 3])
def test_a_sample_that_is_no_list_of_ranks_is_refused(sampled: Any) -> None:
    fragments = Fragmentation(8, 1, 1)
    collection = Collection(fragments)
    fields = {} if sampled is None else {"sampled": sampled}
    collection.add(Received(3, fragments.cut(vector(8), 1)[0].with_fields(**fields)))
    with pytest.raises(UnusableModel, match="not a list of ranks"):
        collection.sampled()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sample": 0}, "sample, fragments and inactivity are at least 1"),
        ({"fragments": 0}, "sample, fragments and inactivity are at least 1"),
        ({"inactivity": 0}, "sample, fragments and inactivity are at least 1"),
        ({"success_fraction": 0.0}, "success_fraction is above 0 and at most 1, not 0.0"),
        ({"success_fraction": 1.1}, "success_fraction is above 0 and at most 1, not 1.1"),
        ({"aggregate": "two"}, "aggregate is one of one, all, not 'two'"),
        ({"ping_timeout": 0.0}, "ping_timeout and aggregation_timeout are above 0"),
        ({"aggregation_timeout": -1.0}, "ping_timeout and aggregation_timeout are above 0"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Plexus(**options)


def test_the_version_is_remembered() -> None:
    first, later = Plexus(), Plexus()
    first.restore({"version": 7})
    later.restore(first.state())
    assert later.state() == {"version": 7}
    with pytest.raises(UnusableState):
        later.restore({"version": "seven"})
