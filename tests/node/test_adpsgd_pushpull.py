"""AD-PSGD as DivShare's artifact means it, without the artifact's defects."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from testbed.catalogue.algorithms import ALGORITHMS
from testbed.node.algorithms.adpsgd_pushpull import PING, PONG, PushPull
from testbed.node.life import Reason
from testbed.node.messages import Message, Received
from testbed.node.sharing.base import whole
from testbed.node.world import Vector
from testbed.records import Count
from testbed.seeds import stream
from tests.node.noted_trainings import Noted, descended, trainings
from tests.node.small_world import Outcome, Quadratic, World
from tests.node.vectors import apart

PUSH_PULL = {"name": "adpsgd-pushpull"}


def world(n: int, **more: Any) -> World:
    return World(n, algorithm=PUSH_PULL, **more)


def sent_in(scene: World) -> Counter[tuple[str, int]]:
    """Counts messages by kind and sender, while the world runs; without those of the last round."""
    sent: Counter[tuple[str, int]] = Counter()

    def count(sender: int, _to: int, message: Message) -> None:
        if scene.rounds is None or message.round < scene.rounds - 1:
            sent[message.kind, sender] += 1

    scene.before_shipping = count
    return sent


def test_every_ping_is_answered_by_one_pong_and_no_pong_is_answered() -> None:
    """As published, both are one object: pings that wait become pongs, or pongs are answered, without an end."""
    scene = world(6, rounds=None, step_s=lambda _learner, _step: 0.1)
    scene.experiment = {"stop": {"time": 3.05}}
    scene.early = [(3.05, rank, Reason.STOPPED) for rank in range(6)]
    sent = sent_in(scene)
    scene.run()
    assert [sent[PING, rank] for rank in range(6)] == [30] * 6
    assert sum(sent[PONG, rank] for rank in range(6)) == 30 * 6
    scene.rate_bps, scene.experiment = 1e4, {**scene.experiment, "outbox": {"policy": "fifo"}}  # now many wait
    sent = sent_in(scene)
    arrived: Counter[str] = Counter()
    scene.on_arrival = lambda _sender, _to, message: arrived.update([message.kind])
    scene.run()
    assert 0 < arrived[PONG] <= sum(sent[PONG, rank] for rank in range(6)) <= arrived[PING]


def test_what_waits_to_be_sent_stays_a_ping() -> None:
    """As published, the flag that makes a pong of a message changes pings that wait."""
    algorithm, node = PushPull(), Alone()
    algorithm._trained = whole(np.ones(3, np.float32), 4)
    ping = algorithm._trained.of_kind(PING)
    algorithm._answer(node, Received(2, ping))  # type: ignore[arg-type]
    algorithm._keep(Received(1, node.sent[0][1]))
    assert [(to, message.kind, message.round) for to, message in node.sent] == [(2, PONG, 4)]
    assert ping.kind == PING


class Alone:
    """As much of a node as an answer needs."""

    finished_peers: frozenset[int] = frozenset()

    def __init__(self) -> None:
        self.sent: list[tuple[int, Message]] = []

    def send(self, to: int, message: Message) -> None:
        self.sent.append((to, message))


def test_a_pong_is_the_model_of_the_last_training_and_does_not_wait_for_the_next_one() -> None:
    """As published, answers wait while a node trains, or what is being trained is sent."""
    scene = world(2, rounds=10, lr=0.5, first_model=apart)
    scene.step_s = lambda learner, _step: 10.0 if learner == 0 else 1.7
    pongs: list[Vector] = []

    def note(sender: int, _to: int, message: Message) -> None:
        if (sender, message.kind) == (0, PONG):
            pongs.append(np.asarray(message.payload[0], np.float32))

    scene.on_arrival = note
    scene.run()
    # Rank 1 is done at 17 s, in the second training of rank 0; pings that come before 10 s find no model.
    trained = apart(0) - np.float32(0.5) * Quadratic(scene, None, 0).slope(apart(0), 0)  # type: ignore[arg-type]
    assert len(pongs) == 4
    np.testing.assert_allclose(pongs, [trained] * 4, rtol=0, atol=1e-6)


def test_the_newest_model_of_each_sender_counts_once() -> None:
    """Rank 0 takes the mean with one model of rank 1, of which a ping and a pong have come."""
    scene = world(2, rounds=1, lr=0.0, first_model=apart, step_s=lambda learner, _step: 0.05 + 0.05 * (1 - learner))
    models = scene.run().models
    np.testing.assert_allclose(models[0], (apart(0) + apart(1)) / 2, rtol=0, atol=1e-6)


def test_an_older_model_of_a_sender_does_not_replace_a_newer_one() -> None:
    algorithm = PushPull()
    for round_ in (3, 2, 4, 4, 1):
        algorithm._keep(Received(5, whole(np.full(2, round_, np.float32), round_).of_kind(PONG)))
    assert [each.round for each in algorithm._received.values()] == [4]


def test_a_second_implementation_steps_beside_it() -> None:
    """Straight from the description, in float64: what arrives when, and when a training is done."""
    scene = world(6, rounds=12, steps=2, lr=0.2, first_model=apart)
    scene.algorithm = {**PUSH_PULL, "fanout": 4}
    scene.experiment = {"evaluation": {"every": 1, "mode": "after"}}
    scene.step_s = lambda learner, step: 0.0101 + 0.0017 * learner + 0.001 * (step % 3)
    scene.latency_s = lambda sender, to: 0.007 + 0.0043 * sender + 0.00071 * to
    with trainings() as log:
        scene.on_arrival = lambda sender, to, message: log.append(Noted("gets", to, sender, message.round))
        outcome = scene.run()
    gradients = [Quadratic(scene, None, learner) for learner in range(6)]  # type: ignore[arg-type]
    x = [apart(learner).astype(np.float64) for learner in range(6)]
    came: list[dict[int, int]] = [{} for _ in range(6)]
    trained: dict[tuple[int, int], np.ndarray] = {}
    rounds, averaged = Counter[int](), 0
    for noted in log:
        node = noted.node
        match noted.what:
            case "begins":
                trained[node, rounds[node]] = descended(gradients[node], x[node], noted, 0.2)
            case "ends":
                models = [trained[node, rounds[node]], *(trained[each] for each in came[node].items())]
                x[node] = np.asarray(np.mean(models, axis=0))
                np.testing.assert_allclose(outcome.evaluated[node, rounds[node]], x[node], rtol=0, atol=1e-5)
                averaged += len(came[node])
                came[node] = {}
                rounds[node] += 1
            case "gets":
                came[node][noted.other] = max(noted.round, came[node].get(noted.other, -1))
    assert [rounds[node] for node in range(6)] == [12] * 6
    assert averaged > 60


@pytest.mark.parametrize(
    ("nodes", "fanout", "pings"), [(2, None, 1), (16, None, 2), (60, None, 3), (6, 1, 1), (6, 5, 2)]
)
def test_half_of_the_fanout_are_pings_with_replacement(nodes: int, fanout: int | None, pings: int) -> None:
    scene = world(nodes, rounds=6, lr=0.0, step_s=lambda _learner, _step: 0.1)
    scene.algorithm = {**PUSH_PULL, "fanout": fanout}
    sent = sent_in(scene)
    scene.run()
    assert [sent[PING, rank] for rank in range(nodes)] == [5 * pings] * nodes


def test_every_byte_is_known_beforehand() -> None:
    dimension = 1000
    scene = world(4, rounds=None, dimension=dimension, step_s=lambda _learner, _step: 0.1)
    scene.experiment = {"stop": {"time": 0.55}}
    scene.early = [(0.55, rank, Reason.STOPPED) for rank in range(4)]
    outcome = scene.run()
    header = len(Message(PING, 0, {"degree": 1}, (np.zeros(dimension, np.float32),)).header)
    assert outcome.shipped == Count(2 * 4 * 5 * 4 * dimension, 2 * 4 * 5 * header, 0, 2 * 4 * 5)


def test_what_was_received_is_counted() -> None:
    """As published, the counter is read after the queue was emptied."""
    outcome = world(6, rounds=20).run()
    aggregated = sum(record.aggregated for rank in range(6) for record in outcome.rounds(rank))
    assert aggregated > 0.8 * outcome.arrived.messages > 100


def staleness(policy: str | None) -> int:
    """On links that take as long as eight rounds for a model."""
    scene = world(4, rounds=60, dimension=1000, rate_bps=4e5)
    usual = ALGORITHMS["adpsgd-pushpull"].outbox.policy
    scene.experiment = {"outbox": {"policy": usual if policy is None else policy}}
    outcome = scene.run()
    return max(record.staleness_max for rank in range(4) for record in outcome.rounds(rank))


def test_by_default_nothing_piles_up_on_slow_links() -> None:
    """As published, nothing is ever dropped, and models are older and older."""
    assert staleness(None) == staleness("flush") <= 20
    assert staleness("fifo") > 30


def test_those_that_have_finished_are_left_alone_and_waited_for_by_nobody() -> None:
    scene = world(3, rounds=10, step_s=lambda learner, _step: 0.01 if learner < 2 else 1.0)
    sent = sent_in(scene)
    outcome = scene.run()
    assert [round(outcome.end(rank).t) for rank in range(3)] == [0, 0, 10]
    assert [sent[kind, 2] for kind in (PING, PONG)] == [0, 0], "all others had finished"


def test_a_node_that_gets_nothing_keeps_its_model_bit_for_bit() -> None:
    scene = world(3, lr=0.0, first_model=apart, lost=lambda *_: True)
    outcome = scene.run()
    assert [model.tobytes() for model in outcome.models] == [apart(rank).tobytes() for rank in range(3)]


@pytest.mark.parametrize("fanout", [0, -1])
def test_a_fanout_that_cannot_be_is_refused(fanout: int) -> None:
    with pytest.raises(ValueError, match="fanout is a whole number from 1 on"):
        PushPull(fanout)


def test_a_node_alone_learns_alone() -> None:
    expected = World(1, graph=[[]], rounds=5).run().models[0]
    assert world(1, rounds=5).run().models[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("uneven", [False, True], ids=["lockstep", "stragglers"])
def test_nothing_depends_on_the_order_of_equal_times(uneven: bool) -> None:
    def outcome(order: list[int] | None) -> Outcome:
        scene = world(6, rounds=8, order=order, rate_bps=1e15, latency_s=lambda *_: 0.005)
        scene.step_s = lambda learner, _step: 0.01 * (1 + learner // 2) if uneven else 0.01
        return scene.run()

    reference = outcome(None)
    for seed in range(4):
        order = list(range(6))
        stream(seed, "test").shuffle(order)
        again = outcome(order)
        assert again.journals == reference.journals
        assert [model.tobytes() for model in again.models] == [model.tobytes() for model in reference.models]
