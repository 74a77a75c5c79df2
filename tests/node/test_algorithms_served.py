"""FedAvg and the parameter server: whom the server asks, whom it waits for, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
import pytest

from testbed.catalogue.shares import part_of
from testbed.node.messages import Message
from testbed.records import Evaluation
from tests.node.small_world import Outcome, Quadratic, World

EVALUATED = {"evaluation": {"every": 2, "mode": "after"}}


def fedavg(n: int = 6, experiment: Mapping[str, object] | None = None, **options: object) -> World:
    return World(n, algorithm={"name": "fedavg", **options}, server=True, experiment=experiment or {})


def server(n: int = 4, **options: object) -> World:
    return World(n, algorithm={"name": "parameter-server", **options}, server=True)


def trained(_world: World, outcome: Outcome, learner: int) -> int:
    return len(outcome.rounds(learner + 1))


# FedAvg


@pytest.mark.parametrize(
    ("count", "factor", "part"),
    [(30, 0.1, 3), (10, 0.15, 2), (7, 1.0, 7), (100, 0.001, 1), (3, 1.3, 4), (100, 0.07, 7)],
)
def test_a_part_of_the_clients_is_not_one_more_because_of_binary_fractions(
    count: int, factor: float, part: int
) -> None:
    assert part_of(count, factor) == part


def test_only_sampled_clients_are_contacted() -> None:
    world = fedavg(10, participation=0.3)
    world.rounds = 20
    outcome = world.run()
    assert [(each.sent.messages, each.aggregated) for each in outcome.rounds(0)] == [(3, 3)] * 20
    often = [trained(world, outcome, learner) for learner in range(10)]
    assert sum(often) == 60
    assert min(often) >= 1
    assert max(often) <= 14
    for learner in range(10):
        end = outcome.end(learner + 1)
        assert (end.sent.messages, end.received.messages) == (often[learner], often[learner] + 1), (
            "one tells of the end"
        )
        assert end.reason == "finished"


@pytest.mark.parametrize("weighted", [True, False])
def test_clients_count_by_their_samples(weighted: bool) -> None:
    """Against the definition, one round."""
    world = fedavg(3, weighted=weighted)
    world.rounds, world.steps = 1, 2
    outcome = world.run()
    expected = np.zeros(8)
    samples = [10, 11, 12] if weighted else [1, 1, 1]
    for learner in range(3):
        compute = Quadratic(world, None, learner)  # type: ignore[arg-type]
        model = compute.initial()
        for step in range(2):
            model = model - np.float32(0.1) * compute.slope(model, step)
        expected += samples[learner] / sum(samples) * model
    np.testing.assert_allclose(outcome.models[0], expected, rtol=0, atol=1e-6)


def test_only_the_server_evaluates_and_the_rounds_are_its_own() -> None:
    world = fedavg(4, EVALUATED)
    world.rounds = 5
    outcome = world.run()
    assert [each.round for each in outcome.of(0, Evaluation)] == [1, 3, 4]  # type: ignore[union-attr]
    assert [each.round for each in outcome.rounds(0)] == [0, 1, 2, 3, 4]
    assert all(each.steps == 0 and each.loss is None for each in outcome.rounds(0))
    for rank in range(1, 5):
        assert not outcome.of(rank, Evaluation)
        assert [each.steps for each in outcome.rounds(rank)] == [1] * 5


def test_bytes_of_fedavg() -> None:
    world = fedavg(5)
    world.rounds, world.dimension = 4, 100
    outcome = world.run()
    assert outcome.end(0).sent.payload == outcome.end(0).received.payload == 4 * 5 * 400
    assert outcome.end(0).sent.control == 5 * len(Message("over", 4).header)
    assert outcome.end(0).sent.messages == 4 * 5 + 5
    assert outcome.end(3).sent.messages == 4


def test_over_selection_asks_more_and_takes_the_first() -> None:
    world = fedavg(8, participation=0.5, over_selection=1.5)
    world.rounds = 20
    world.step_s = lambda learner, _step: 1.0 if learner >= 5 else 0.1 + 0.01 * learner
    outcome = world.run()
    for record in outcome.rounds(0):
        assert record.sent.messages >= 5, "6 of 8 are asked, 4 are waited for"
        assert record.aggregated == 4
    # At most 5 are fast and 6 are asked: of the slow ones at least one is late, every round.
    assert sum(each.expired for each in outcome.rounds(0)) > 15
    assert outcome.end(0).reason == "finished"


def test_of_equally_fast_clients_the_lowest_ranks_count() -> None:
    """All of 4 are asked, 2 are waited for; all are as fast."""
    world = fedavg(4, participation=0.5, over_selection=2.0, weighted=False)
    world.rounds = 1
    some = World(2, algorithm={"name": "fedavg", "weighted": False}, server=True, rounds=1).run()
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 1, 3]):
        world.order = order
        outcome = world.run()
        assert outcome.models[0].tobytes() == some.models[0].tobytes()
        assert outcome.rounds(0)[0].expired == 2


def test_a_deadline_leaves_slow_clients_behind() -> None:
    world = fedavg(3, deadline="500ms")
    world.rounds = 6
    world.step_s = lambda learner, _step: 0.9 if learner == 1 else 0.1
    outcome = world.run()
    rounds = outcome.rounds(0)
    assert [each.aggregated for each in rounds] == [2] * 6
    np.testing.assert_allclose([each.t for each in rounds], 0.5 * np.arange(1, 7))
    assert sum(each.expired for each in rounds) == 2, (
        "sent at about 0.9 and 1.8 s; what comes after 2.5 s no round tells of"
    )
    assert 3 <= trained(world, outcome, 1) <= 4
    assert [each.round for each in outcome.rounds(2)] == [0, 1, 3, 5], "the newest model, not the next one"
    assert sum(each.expired for each in outcome.rounds(2)) == 2


def test_rounds_with_silent_clients_only_take_their_deadline() -> None:
    """A wait for clients that are known to be silent ends at once."""
    world = fedavg(2, {"missing": {"after": "200ms", "then": "skip"}}, deadline="500ms")
    world.rounds = 5
    world.lost = lambda sender, _to, _message: sender > 0
    outcome = world.run()
    np.testing.assert_allclose([each.t for each in outcome.rounds(0)], 0.5 * np.arange(1, 6), atol=0.11)


def test_a_deadline_that_nobody_keeps_leaves_the_model_as_it_is() -> None:
    world = fedavg(3, deadline="50ms")
    world.step_s = lambda _learner, _step: 1.0
    outcome = world.run()
    assert not outcome.models[0].any()
    assert [each.aggregated for each in outcome.rounds(0)] == [0, 0, 0]


@pytest.mark.parametrize(("then", "reason"), [("skip", "finished"), ("abort", "failed")])
def test_a_client_that_is_lost_is_skipped_or_ends_it(then: str, reason: str) -> None:
    world = fedavg(3, {"missing": {"after": "2s", "then": then}})
    world.lost = lambda sender, _to, _message: sender == 2
    outcome = world.run()
    assert outcome.end(0).reason == reason
    assert "node2" in outcome.events(0)[0].detail
    if then == "skip":
        assert [each.aggregated for each in outcome.rounds(0)] == [2, 2, 2]
        assert [each.expired for each in outcome.rounds(0)] == [1, 1, 1]
    else:
        assert "node2" in outcome.end(0).failure.message  # type: ignore[union-attr]


@pytest.mark.parametrize("sharing", ["topk", "random"])
def test_clients_may_send_a_part_up_and_the_server_sends_all_down(sharing: str) -> None:
    world = fedavg(4, {"sharing": {"name": sharing, "fraction": 0.2}})
    world.dimension, world.rounds = 500, 30
    outcome = world.run()
    assert outcome.end(0).sent.payload == 30 * 4 * 2000
    assert 0.15 < outcome.end(0).received.payload / (30 * 4 * 2000) < 0.25
    whole = World(4, algorithm={"name": "fedavg"}, server=True, rounds=30, dimension=500).run()
    distance = [float(np.linalg.norm(whole.models[0] - model)) for model in (outcome.models[0], np.zeros(500))]
    assert 0 < distance[0] < 0.8 * distance[1]


@pytest.mark.parametrize("samples", [0, -3])
def test_an_update_by_no_samples_is_refused(samples: int) -> None:
    world = fedavg(3)
    world.samples = lambda learner: samples if learner == 1 else 5
    failure = world.run().end(0).failure
    assert failure is not None
    assert "samples" in failure.message


# The parameter server


def test_synchronous_steps_are_by_the_mean_gradient_of_all() -> None:
    world = server(3)
    outcome = world.run()
    for rank in range(1, 4):
        assert [each.steps for each in outcome.rounds(rank)] == [1, 1, 1]
    assert [each.aggregated for each in outcome.rounds(0)] == [3, 3, 3]
    assert [each.sent.messages for each in outcome.rounds(0)] == [3, 3, 3]


def test_synchronous_goes_on_with_the_mean_of_those_that_are_left() -> None:
    world = server(3)
    world.experiment = {"missing": {"after": "1s", "then": "skip"}}
    world.lost = lambda sender, _to, _message: sender == 3
    outcome = world.run()
    two = World(2, algorithm={"name": "parameter-server"}, server=True).run()
    np.testing.assert_allclose(outcome.models[0], two.models[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("damping", ["none", "staleness"])
def test_asynchronous_steps_in_the_order_of_arrival(damping: str) -> None:
    """Against the definition, with two workers: 1 s and 0.3 s a gradient; 12 versions."""
    world = server(2, mode="async", damping=damping)
    world.rounds = 6
    world.step_s = lambda learner, _step: (1.0, 0.3)[learner]
    world.latency_s = lambda _sender, _to: 0.0
    world.rate_bps = inf
    computes = [Quadratic(world, None, learner) for learner in range(2)]  # type: ignore[arg-type]
    model = np.zeros(8, np.float32)
    has, step, version = [model, model], [0, 0], [0, 0]
    due = [1.0, 0.3]
    staleness = []
    for current in range(12):
        worker = 0 if due[0] <= due[1] else 1
        gradient = computes[worker].slope(has[worker], step[worker])
        tau = current - version[worker]
        staleness.append(tau)
        model = model - np.float32(0.1 / (1 + tau) if damping == "staleness" else 0.1) * gradient
        has[worker], version[worker] = model, current + 1
        step[worker] += 1
        due[worker] += (1.0, 0.3)[worker]
    outcome = world.run()
    assert max(staleness) == 3
    np.testing.assert_allclose(outcome.models[0], model, rtol=0, atol=1e-6)
    assert [each.aggregated for each in outcome.rounds(0)] == [2] * 6


def test_asynchronous_answers_only_the_worker_that_sent() -> None:
    world = server(4, mode="async")
    world.rounds = 5
    world.step_s = lambda learner, _step: 0.1 * (learner + 1)
    outcome = world.run()
    # 4 to begin with, an answer to each of 20 versions but the last, and 4 that tell of the end.
    assert outcome.end(0).sent.messages == 4 + 19 + 4
    done = [outcome.end(rank).steps for rank in range(1, 5)]
    assert done == sorted(done, reverse=True)
    assert done[0] > 2.5 * done[3]


@pytest.mark.parametrize("lead", [1, 2, 5])
def test_nobody_is_further_ahead_than_allowed(lead: int) -> None:
    """Counted where the server hears of it."""
    world = server(3, mode="async", max_lead=lead)
    world.rounds = 12
    world.step_s = lambda learner, _step: 5.0 if learner == 2 else 0.1
    heard = dict.fromkeys((1, 2, 3), 0)
    leads = []

    def arrive(sender: int, _to: int, message: Message) -> None:
        if message.kind == "gradient":
            heard[sender] += 1
            leads.append(max(heard.values()) - min(heard.values()))

    world.on_arrival = arrive
    outcome = world.run()
    assert outcome.end(0).reason == "finished"
    # One more than the bound may be under way when the lead is exactly it.
    assert max(leads) == lead + 1
    free = server(3, mode="async")
    free.rounds, free.step_s, free.on_arrival = 12, world.step_s, arrive
    leads.clear()
    heard = dict.fromkeys((1, 2, 3), 0)
    free.run()
    assert max(leads) > 10


@pytest.mark.parametrize(("then", "reason"), [("skip", "finished"), ("abort", "failed")])
def test_a_dead_worker_does_not_hold_the_others_for_ever(then: str, reason: str) -> None:
    world = server(3, mode="async", max_lead=2)
    world.rounds = 6
    world.experiment = {"missing": {"after": "3s", "then": then}}
    world.lost = lambda sender, _to, _message: sender == 1
    outcome = world.run()
    assert outcome.end(0).reason == reason
    assert [each.what for each in outcome.events(0)] == ["peer-missing"]
    assert "node1" in outcome.events(0)[0].detail
    assert len(outcome.rounds(0)) == (6 if then == "skip" else 2), (
        "the others send 3 each, then they wait for the dead one"
    )


def test_a_worker_that_comes_back_to_life_goes_on() -> None:
    world = server(3, mode="async", max_lead=1)
    world.rounds = 20
    world.experiment = {"missing": {"after": "3s", "then": "skip"}}
    world.step_s = lambda learner, step: 10.0 if learner == 0 and step == 2 else 0.4
    outcome = world.run()
    assert outcome.end(0).reason == "finished"
    assert outcome.end(1).steps > 5


def test_no_worker_at_all_is_a_failure_and_not_an_endless_wait() -> None:
    world = server(2, mode="async")
    world.experiment = {"missing": {"after": "3s", "then": "skip"}}
    world.lost = lambda sender, _to, _message: sender != 0
    assert world.run().end(0).reason == "failed"


def test_a_server_that_was_cut_off_asks_all_workers_again() -> None:
    world = server(2, mode="async")
    world.rounds = 3
    world.experiment = {"missing": {"after": "100ms", "then": "skip"}}
    received = 0

    def lost(sender: int, _to: int, _message: Message) -> bool:
        nonlocal received
        received += sender != 0
        return sender != 0 and 2 < received < 7

    world.lost = lost
    outcome = world.run()
    assert [outcome.end(rank).reason for rank in range(3)] == ["finished"] * 3
    assert outcome.end(0).rounds == 3


def test_a_client_ends_with_its_server_though_the_last_word_was_lost() -> None:
    for world in (fedavg(2), server(2), server(2, mode="async")):
        world.experiment = {"missing": {"after": "200ms", "then": "skip"}}
        world.lost = lambda _sender, _to, message: message.kind == "over"
        outcome = world.run()
        assert [outcome.end(rank).reason for rank in range(3)] == ["finished"] * 3


def one_instant(**options: object) -> World:
    """Both answers are there after half a second; the first to be delivered is that of the higher rank."""
    world = World(2, algorithm=options, server=True, rounds=1)
    world.rate_bps = inf
    world.step_s = lambda learner, _step: (0.5, 0.25)[learner]
    world.latency_s = lambda sender, _to: 0.25 if sender == 2 else 0.0
    return world


def test_the_first_enough_are_known_when_their_instant_is_over() -> None:
    world = one_instant(name="fedavg", participation=0.5, over_selection=2.0)
    alone = World(1, algorithm={"name": "fedavg"}, server=True, rounds=1).run()
    assert world.run().models[0].tobytes() == alone.models[0].tobytes()


def test_gradients_of_one_instant_are_steps_by_rank() -> None:
    world = one_instant(name="parameter-server", mode="async", damping="staleness")
    first, second = (
        Quadratic(world, None, learner).slope(np.zeros(8, np.float32), 0)  # type: ignore[arg-type]
        for learner in range(2)
    )
    np.testing.assert_allclose(world.run().models[0], -0.1 * first - 0.05 * second, rtol=0, atol=1e-6)
