"""The "Swift" of DivShare's artifact: random recipients, plain means, no memory, no waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from testbed.node.life import Reason
from testbed.node.messages import Message
from testbed.node.recipients import some_of
from testbed.seeds import stream
from tests.node.small_world import Outcome, Quadratic, World
from tests.node.vectors import apart

EVALUATED = {"evaluation": {"every": 1, "mode": "after"}}
RANDOM = {"name": "swift-random"}


@pytest.mark.parametrize("recipients", [1, 2, 5])
def test_it_is_the_mean_of_the_own_model_and_those_that_came(recipients: int) -> None:
    """A second implementation on 6 nodes: what is sent at the end of an iteration is there at the end of the next."""
    n, rounds = 6, 9
    world = World(n, algorithm={**RANDOM, "recipients": recipients}, graph=None, rounds=rounds, steps=2)
    world.first_model, world.experiment = apart, EVALUATED
    outcome = world.run()
    draws = [stream(1, "recipients", f"node{rank}") for rank in range(n)]
    models: list[Any] = [apart(rank) for rank in range(n)]
    on_the_way: list[list[Any]] = [[] for _ in range(n)]
    for round_ in range(rounds):
        came, on_the_way = on_the_way, [[] for _ in range(n)]
        for rank in range(n):
            learner = Quadratic(world, None, rank)  # type: ignore[arg-type]
            for step in (2 * round_, 2 * round_ + 1):
                models[rank] = models[rank] - np.float32(0.1) * learner.slope(models[rank], step)
            for to in draws[rank].sample([other for other in range(n) if other != rank], recipients):
                on_the_way[to].append(models[rank])
        for rank in range(n):
            models[rank] = np.mean([models[rank], *came[rank]], axis=0, dtype=np.float64).astype(np.float32)
            np.testing.assert_allclose(outcome.evaluated[rank, round_], models[rank], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("nodes", "recipients"), [(2, 1), (5, 3), (8, 3), (9, 4), (60, 6)])
def test_a_model_goes_to_the_logarithm_of_the_number_of_nodes(nodes: int, recipients: int) -> None:
    """Six at 60 nodes, as published; each of them another node."""
    outcome = World(nodes, algorithm=RANDOM, graph=None, rounds=2, steps=2).run()
    header = len(Message("model", 0, {"degree": recipients}, (np.zeros(8, np.float32),)).header)
    for rank in range(nodes):
        for record in outcome.rounds(rank):
            assert record.sent.messages == recipients
            assert record.sent.payload == recipients * 4 * 8
            assert record.sent.metadata == recipients * header
        assert outcome.end(rank).sent.messages == 2 * recipients


def test_recipients_are_others_and_different_and_drawn_anew() -> None:
    sent: list[tuple[int, int, int]] = []
    world = World(7, algorithm={**RANDOM, "recipients": 3}, graph=None, rounds=60, steps=2)
    world.before_shipping = lambda sender, to, message: sent.append((message.round, sender, to))
    world.run()
    assert len(set(sent)) == len(sent) == 7 * 3 * 60
    counts = np.zeros((7, 7))
    for _, sender, to in sent:
        counts[sender, to] += 1
    assert not counts.diagonal().any()
    # 60 draws with chance 1/2: 30 expected, standard deviation 3.9.
    assert counts[~np.eye(7, dtype=bool)].min() > 14
    assert counts[~np.eye(7, dtype=bool)].max() < 46


def test_of_several_models_of_one_sender_the_newest_counts_once() -> None:
    """Node 0 takes as long as five iterations of node 1: it takes the mean of two models, not of six."""
    world = World(2, algorithm=RANDOM, graph=None, lr=0.0, rounds=4, first_model=apart, experiment=EVALUATED)
    world.step_s = lambda learner, _step: 0.5 if learner == 0 else 0.1
    world.rounds = 3
    outcome = world.run()
    first, *_ = outcome.rounds(0)
    assert (first.aggregated, first.expired) == (1, 2)
    np.testing.assert_allclose(outcome.evaluated[0, 0], (apart(0) + apart(1)) / 2, rtol=0, atol=1e-6)


def test_without_new_models_nothing_changes() -> None:
    """There is no memory: models of earlier iterations do not count again."""
    world = World(3, algorithm=RANDOM, graph=None, lr=0.0, rounds=6, first_model=apart, experiment=EVALUATED)
    world.lost = lambda _sender, _to, message: message.round > 0
    outcome = world.run()
    for rank in range(3):
        assert [each.aggregated > 0 for each in outcome.rounds(rank)].count(True) == 1
        assert outcome.evaluated[rank, 2].tobytes() == outcome.models[rank].tobytes()


def test_no_node_waits_for_a_slow_or_dead_or_distant_one() -> None:
    world = World(5, algorithm=RANDOM, graph=None, rounds=20, steps=2)
    world.step_s = lambda learner, _step: 0.9 if learner == 1 else 0.01
    world.latency_s = lambda sender, _to: 7.0 if sender == 2 else 0.01
    world.early = [(0.1, 3, Reason.INTERRUPTED)]
    outcome = world.run()
    for rank in (0, 2, 4):
        assert [each.t for each in outcome.rounds(rank)] == pytest.approx([0.02 * (1 + n) for n in range(20)])
        assert outcome.reasons[rank] is Reason.FINISHED


def test_the_outbox_decides_what_becomes_of_old_models_on_a_slow_link() -> None:
    """As published, all of them are sent: they are older and older when they arrive."""
    staleness = {}
    for policy in ("fifo", "flush", "latest"):
        world = World(3, algorithm={**RANDOM, "recipients": 2}, graph=None, rounds=30, steps=5)
        world.dimension, world.rate_bps, world.experiment = 1000, 2e5, {"outbox": {"policy": policy}}
        outcome = world.run()
        dropped = sum(each.dropped for each in outcome.rounds(0))
        assert (dropped == 0) == (policy == "fifo")
        assert outcome.end(0).sent.messages + dropped == 60
        staleness[policy] = max(each.staleness_max for each in outcome.rounds(0))
    assert staleness["flush"] <= 5
    assert staleness["latest"] <= 5
    assert staleness["fifo"] > 10


def test_nothing_depends_on_the_order_of_nodes_within_an_instant() -> None:
    world = World(6, algorithm=RANDOM, graph=None, rounds=12, step_s=lambda _learner, _step: 0.02)
    world.rate_bps = 1e30
    world.latency_s = lambda sender, to: 0.02 if (sender + to) % 2 else 0.01
    usual = world.run()
    for order in ((5, 4, 3, 2, 1, 0), (2, 0, 4, 1, 5, 3)):
        shuffled = replace(world, order=order).run()
        assert shuffled.journals == usual.journals
        assert [each.tobytes() for each in shuffled.models] == [each.tobytes() for each in usual.models]


@pytest.mark.parametrize("sharing", ["full", {"name": "random", "fraction": 0.3}, {"name": "topk", "fraction": 0.3}])
def test_it_brings_nodes_together(sharing: Any) -> None:
    def spread(outcome: Outcome) -> float:
        return float(np.ptp(outcome.models, axis=0).mean())

    world = World(6, algorithm=RANDOM, graph=None, rounds=80, steps=2, noise=0.0, lr=0.05, dimension=40)
    world.experiment = {"sharing": sharing}
    together = spread(world.run())
    world.lost = lambda _sender, _to, _message: True
    assert together < 0.6 * spread(world.run())


@pytest.mark.parametrize(("options", "words"), [({"recipients": -1}, "recipients")])
def test_options_are_checked(options: Mapping[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        World(3, algorithm={**RANDOM, **options}, graph=None).run()


def test_models_leave_in_a_random_order() -> None:
    """A slow link carries a random part of them, not always those of the lowest ranks."""
    left: list[int] = []
    world = World(7, algorithm={**RANDOM, "recipients": 4}, graph=None, rounds=12, steps=20)
    world.experiment = {"outbox": {"in_flight": 1}}
    world.before_shipping = lambda sender, to, _message: left.append(to) if sender == 2 else None
    world.run()
    draws, order = stream(1, "recipients", "node2"), stream(1, "order", "node2")
    expected: list[int] = []
    for _ in range(12):
        recipients = draws.sample([0, 1, 3, 4, 5, 6], 4)
        order.shuffle(recipients)
        expected += recipients
    assert left == expected


@pytest.mark.parametrize(("finished", "count"), [((), 3), ((0, 4), 3), ((0, 1, 4), 2), ((0, 1, 3, 4, 5), 0)])
def test_nodes_that_have_finished_are_not_drawn(finished: tuple[int, ...], count: int) -> None:
    drawn = some_of((0, 1, 3, 4, 5), finished, 3, stream(5, "drawn"))
    assert len(set(drawn)) == len(drawn) == count
    assert not set(drawn) & {*finished, 2}
