"""D-PSGD and epidemic learning: who sends what to whom, and when a round is over."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.node.algorithms.epidemic import _regular
from testbed.node.messages import Message
from testbed.node.recipients import fanout_among, independent
from tests.node.small_world import World, full, ring


def test_dpsgd_waits_for_its_slowest_neighbour_and_for_nobody_else() -> None:
    """A chain of four; the last one takes 5 s a step."""
    chain = [[1], [0, 2], [1, 3], [2]]
    outcome = World(4, graph=chain, step_s=lambda learner, _step: 5.0 if learner == 3 else 0.01).run()
    ends = [[round(record.t) for record in outcome.rounds(rank)] for rank in range(4)]
    assert ends == [[0, 0, 5], [0, 5, 10], [5, 10, 15], [5, 10, 15]]


def test_a_node_that_is_one_round_ahead_is_buffered() -> None:
    """Node 2 hears of node 1 twice before it is done with its first round, and still averages round by round."""
    world = World(3, graph=[[1], [0, 2], [1]], lr=0.5, rounds=4)
    slow = World(3, graph=world.graph, lr=0.5, rounds=4, latency_s=lambda _sender, to: 9.0 if to == 2 else 0.01)
    assert slow.run().models[2].tobytes() == world.run().models[2].tobytes()
    assert all(record.expired == 0 for record in slow.run().rounds(2))


@given(st.integers(1, 40), st.integers(0, 5), st.integers(0, 3), st.integers(0, 99))
def test_epidemic_draws_others_all_different(nodes: int, fanout: int, round_: int, seed: int) -> None:
    fanout = min(fanout, nodes - 1)
    learners = tuple(range(3, 3 + nodes))
    (drawn,) = independent(seed, learners, fanout, round_)
    assert set(drawn) == set(learners)
    for rank, recipients in drawn.items():
        assert len(set(recipients)) == len(recipients) == fanout
        assert set(recipients) <= set(learners) - {rank}
    fanout -= nodes * fanout % 2
    regular = _regular(seed, learners, fanout, round_)
    for rank, recipients in regular.items():
        assert len(set(recipients)) == fanout
        assert rank not in recipients
        assert all(rank in regular[other] for other in recipients)


def test_epidemic_draws_anew_every_round_and_everybody_as_often() -> None:
    learners = tuple(range(10))
    counts = np.zeros((10, 10))
    for round_ in range(400):
        for rank, recipients in independent(7, learners, 3, round_)[0].items():
            counts[rank, list(recipients)] += 1
    assert not counts.diagonal().any()
    # 400 draws with chance 1/3: 133 expected, standard deviation 9.4.
    assert counts[~np.eye(10, dtype=bool)].min() > 90
    assert counts[~np.eye(10, dtype=bool)].max() < 180


def test_epidemic_takes_the_plain_mean_of_what_it_received() -> None:
    """Against the definition, and the draws; some receive none, some more than they send."""

    def own(learner: int) -> np.ndarray:
        return np.random.default_rng(learner).normal(size=8).astype(np.float32)

    algorithm = {"name": "epidemic", "mode": "local", "fanout": 2}
    outcome = World(9, algorithm=algorithm, lr=0.0, rounds=1, first_model=own).run()
    (drawn,) = independent(1, tuple(range(9)), 2, 0)
    for rank in range(9):
        senders = [other for other in range(9) if rank in drawn[other]]
        expected = sum((own(other) for other in senders), own(rank).astype(np.float64)) / (1 + len(senders))
        np.testing.assert_allclose(outcome.models[rank], expected, rtol=0, atol=1e-6)
        assert outcome.rounds(rank)[0].aggregated == len(senders)
    assert len({record.aggregated for rank in range(9) for record in outcome.rounds(rank)}) > 2


@pytest.mark.parametrize(("nodes", "fanout"), [(1, 0), (2, 1), (3, 2), (5, 3), (8, 3), (9, 4), (96, 7), (97, 7)])
def test_epidemic_sends_to_the_logarithm_of_the_number_of_nodes(nodes: int, fanout: int) -> None:
    assert fanout_among(nodes, None) == fanout
    assert fanout_among(nodes, None, regular=True) == fanout + (nodes * fanout) % 2


@pytest.mark.parametrize(("mode", "nodes", "fanout"), [("oracle", 5, 3), ("oracle", 4, 4), ("local", 4, 4)])
def test_epidemic_says_when_there_is_no_such_fanout(mode: str, nodes: int, fanout: int) -> None:
    failure = World(nodes, algorithm={"name": "epidemic", "mode": mode, "fanout": fanout}).run().end(0).failure
    assert failure is not None
    assert str(fanout) in failure.message


def test_oracle_sends_and_receives_the_same_number() -> None:
    outcome = World(9, algorithm={"name": "epidemic", "fanout": 4}, rounds=6).run()
    for rank in range(9):
        assert [(each.sent.messages, each.aggregated) for each in outcome.rounds(rank)] == [(4, 4)] * 6


def test_notify_costs_a_small_message_for_everybody_else() -> None:
    n, fanout, rounds = 7, 2, 4
    algorithm = {"name": "epidemic", "mode": "local", "round_end": "notify", "fanout": fanout}
    outcome = World(n, algorithm=algorithm, rounds=rounds).run()
    small = len(Message("model", 0).header)
    for rank in range(n):
        end = outcome.end(rank)
        assert end.sent.messages == end.received.messages == (n - 1) * rounds
        assert end.sent.control == (n - 1 - fanout) * rounds * small
    assert small <= 12


def test_notify_is_a_barrier_for_all_and_expected_is_none() -> None:
    def step_s(learner: int, _step: int) -> float:
        return 5.0 if learner == 3 else 0.01

    for round_end, barrier in (("notify", True), ("expected", False)):
        algorithm = {"name": "epidemic", "mode": "local", "round_end": round_end, "fanout": 1}
        outcome = World(8, algorithm=algorithm, step_s=step_s, rounds=1).run()
        waited = [rank for rank in range(8) if outcome.end(rank).t > 5]
        assert (len(waited) == 8) == barrier


@pytest.mark.parametrize("sharing", ["full", {"name": "random", "fraction": 0.05}])
def test_all_three_ends_of_a_round_average_the_same(sharing: object) -> None:
    """Where everything arrives in time, they differ in costs only; an empty message is a model all the same."""
    models = []
    for round_end in ("notify", "timeout", "expected"):
        algorithm = {"name": "epidemic", "mode": "local", "round_end": round_end, "timeout": "1s"}
        outcome = World(8, algorithm=algorithm, rounds=5, experiment={"sharing": sharing}).run()
        models.append([model.tobytes() for model in outcome.models])
        assert sum(each.aggregated for rank in range(8) for each in outcome.rounds(rank)) == 8 * 3 * 5
    assert models[0] == models[1] == models[2]


def test_a_timeout_takes_what_is_there_and_older_rounds_too() -> None:
    algorithm = {"name": "epidemic", "mode": "local", "round_end": "timeout", "fanout": 2, "timeout": "100ms"}
    outcome = World(
        3, algorithm=algorithm, rounds=5, latency_s=lambda sender, _to: 0.105 if sender == 0 else 0.01
    ).run()
    for rank in (1, 2):
        rounds = outcome.rounds(rank)
        assert [each.aggregated for each in rounds] == [1, 2, 2, 2, 2]
        assert [each.staleness_max for each in rounds] == [0, 1, 1, 1, 1]
        assert [each.staleness_mean for each in rounds] == [0, 0.5, 0.5, 0.5, 0.5]
        np.testing.assert_allclose([each.phases.wait for each in rounds], 0.1)
        np.testing.assert_allclose([each.t for each in rounds], np.arange(1, 6) * 0.11)


def test_a_peer_sampler_counts_and_costs_a_round_trip() -> None:
    """The same graphs as by the seed, so the same models; but every round takes longer, and costs control bytes."""
    free = World(6, degree=4, rounds=5).run()
    asked = World(6, degree=4, rounds=5, sampler=6).run()
    assert [model.tobytes() for model in asked.models[:6]] == [model.tobytes() for model in free.models]
    assert free.shipped.control == 0
    question = len(Message("ask-peers", 0).header)
    for rank in range(6):
        end = asked.end(rank)
        assert end.sent.control == 5 * question
        assert end.received.messages == 5 * (4 + 1)
        assert end.received.control > 5 * question, "an answer holds the peers"
        ours, theirs = asked.rounds(rank), free.rounds(rank)
        for number in range(5):
            took = ours[number].t - theirs[number].t
            assert 0.02 * (number + 1) < took < 0.0205 * (number + 1), "two latencies of 10 ms a round"
    sampler = asked.end(6)
    assert sampler.reason == "finished"
    assert (sampler.received.messages, sampler.sent.messages) == (30, 30)
    assert sampler.sent.control == sum(asked.end(rank).received.control for rank in range(6))
    assert asked.rounds(6) == []


def test_a_learner_can_be_the_peer_sampler_and_asks_itself_for_nothing() -> None:
    outcome = World(6, degree=4, rounds=5, sampler=2).run()
    assert outcome.end(2).received.control == 5 * 5 * len(Message("ask-peers", 0).header)
    assert outcome.end(1).sent.messages == 5 * (4 + 1)
    assert outcome.models[3].tobytes() == World(6, degree=4, rounds=5).run().models[3].tobytes()


@pytest.mark.parametrize("policy", ["flush", "latest"])
def test_a_busy_peer_sampler_answers_whatever_the_outbox_drops(policy: str) -> None:
    """Its own models are long under way when the next question comes."""
    world = World(4, graph=None, degree=2, sampler=0, rounds=6, dimension=2000, rate_bps=1e5)
    world.experiment = {"outbox": {"policy": policy}, "missing": {"after": "5s", "then": "skip"}}
    outcome = world.run()
    assert [outcome.end(rank).rounds for rank in range(4)] == [6] * 4


def test_flush_lets_a_slow_link_miss_rounds_and_fifo_does_not() -> None:
    """Epidemic learning by timeouts never waits; what its links cannot carry is dropped or piles up."""
    staleness = {}
    for policy in ("fifo", "flush", "latest"):
        algorithm = {"name": "epidemic", "mode": "local", "round_end": "timeout", "fanout": 2, "timeout": "50ms"}
        world = World(3, algorithm=algorithm, rounds=30, dimension=1000, rate_bps=2e5)
        world.experiment = {"outbox": {"policy": policy}}
        outcome = world.run()
        dropped = sum(each.dropped for each in outcome.rounds(0))
        assert (dropped == 0) == (policy == "fifo")
        assert outcome.end(0).sent.messages + dropped == 60
        staleness[policy] = max(each.staleness_max for each in outcome.rounds(0))
    assert staleness["flush"] <= 4
    assert staleness["latest"] <= 4
    assert staleness["fifo"] > 10


def test_a_round_of_dpsgd_takes_its_training_and_the_slowest_message() -> None:
    """Training 30 ms, latency 20 ms, 4057 bytes at 1 Mbit/s 32.456 ms."""
    world = World(4, graph=ring(4), steps=3, dimension=1000, rate_bps=1e6, latency_s=lambda _sender, _to: 0.02)
    header = len(Message("model", 0, {"degree": 2}, (np.zeros(1000, np.float32),)).header)
    for record in world.run().rounds(0):
        assert record.t == pytest.approx((record.round + 1) * (0.03 + 0.02 + (4000 + header) * 8 / 1e6))
        assert record.phases.train == pytest.approx(0.03)
        assert record.steps == 3


def test_training_brings_everybody_near_the_common_optimum() -> None:
    outcome = World(6, graph=full(6), rounds=80, noise=0.0, lr=0.2).run()
    average = np.mean([_target(learner) for learner in range(6)], axis=0)
    for model in outcome.models:
        np.testing.assert_allclose(model, average, atol=1e-4)


def _target(learner: int) -> np.ndarray:
    return np.random.default_rng((1, 7, learner)).normal(size=8)
