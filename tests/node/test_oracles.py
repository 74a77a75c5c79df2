"""What is known beforehand about the algorithms, exactly or nearly so."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.node.messages import Message
from testbed.node.sharing.base import whole
from testbed.node.world import Vector
from testbed.records import Count
from testbed.runtimes.sim.clock import Stalled
from testbed.seeds import stream
from tests.examples import examples
from tests.node.small_world import Graph, Outcome, Quadratic, World, full, plans, ring
from tests.node.vectors import apart

IRREGULAR: Graph = [[1, 2, 3, 4], [0], [0, 3], [0, 2, 4], [0, 3, 5], [4]]
EVALUATED = {"evaluation": {"every": 1, "mode": "after"}}


def mean(vectors: list[Vector]) -> np.ndarray:
    stacked: np.ndarray = np.array(vectors, np.float64)
    return np.asarray(stacked.mean(axis=0))


def start_mean(n: int) -> np.ndarray:
    return mean([apart(learner) for learner in range(n)])


def after(outcome: Outcome, round_: int, ranks: range) -> np.ndarray:
    return np.array([outcome.evaluated[rank, round_] for rank in ranks], np.float64)


# 1. The mean


@pytest.mark.parametrize(
    "world",
    [
        World(6, graph=IRREGULAR),
        World(7, degree=4),
        World(8, degree=3, sampler=2),
        World(8, algorithm={"name": "epidemic", "mode": "oracle"}),
    ],
    ids=["irregular", "dynamic", "sampler", "epidemic-oracle"],
)
def test_without_training_the_mean_of_all_models_stays(world: World) -> None:
    world.lr, world.rounds, world.first_model = 0.0, 12, apart
    outcome = world.run()
    np.testing.assert_allclose(mean(outcome.models), start_mean(world.learners), rtol=0, atol=1e-6)
    assert (
        np.std(np.array(outcome.models), axis=0).max()
        < 0.7 * np.std([apart(n) for n in range(world.learners)], axis=0).max()
    )


@pytest.mark.parametrize("round_end", ["notify", "expected"])
def test_epidemic_local_does_not_keep_the_mean(round_end: str) -> None:
    algorithm = {"name": "epidemic", "mode": "local", "round_end": round_end}
    outcome = World(8, algorithm=algorithm, lr=0.0, rounds=12, first_model=apart).run()
    assert np.abs(mean(outcome.models) - start_mean(8)).max() > 1e-3


def test_a_link_that_is_dead_both_ways_does_not_move_the_mean() -> None:
    """The weights of the other links do not depend on who was heard."""
    world = World(6, graph=IRREGULAR, lr=0.0, rounds=6, first_model=apart)
    world.experiment = {"missing": {"after": "1s", "then": "skip"}}
    world.lost = lambda sender, to, _message: {sender, to} == {0, 3}
    outcome = world.run()
    np.testing.assert_allclose(mean(outcome.models), start_mean(6), rtol=0, atol=1e-6)
    assert outcome.end(0).reason == "finished"


# 2. The variance


@pytest.mark.parametrize("graph", [IRREGULAR, ring(8), full(5)], ids=["irregular", "ring", "full"])
def test_without_training_nodes_agree_as_fast_as_the_eigenvalues_say(graph: Graph) -> None:
    n = len(graph)
    weights = np.zeros((n, n))
    for one, others in enumerate(graph):
        for other in others:
            weights[one, other] = 1 / (1 + max(len(others), len(graph[other])))
        weights[one, one] = 1 - weights[one].sum()
    second = sorted(np.abs(np.linalg.eigvalsh(weights)))[-2]
    rounds = 12
    outcome = World(n, graph=graph, lr=0.0, rounds=rounds, first_model=apart, experiment=EVALUATED).run()
    expected = np.array([apart(learner) for learner in range(n)], np.float64)
    spread = []
    for round_ in range(rounds):
        expected = weights @ expected
        np.testing.assert_allclose(after(outcome, round_, range(n)), expected, rtol=0, atol=1e-5)
        spread.append(after(outcome, round_, range(n)).var(axis=0).sum())
    if second > 0.1:
        decay = (spread[-1] / spread[-5]) ** (1 / 4)
        assert 0.9 * second**2 < decay < 1.02 * second**2
    else:
        assert spread[0] < 1e-12


# 3. Equal to something simpler


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_full_graph_is_a_parameter_server_is_plain_gradient_descent(n: int) -> None:
    """The same minibatches in all three: a server takes no learner's part."""
    rounds = 8
    everybody = World(n, graph=full(n), rounds=rounds, experiment=EVALUATED)
    gossip = everybody.run()
    served = World(n, algorithm={"name": "parameter-server"}, server=True, rounds=rounds, experiment=EVALUATED).run()
    plain = np.zeros(8, np.float32)
    learners = [Quadratic(everybody, None, learner) for learner in range(n)]  # type: ignore[arg-type]
    for round_ in range(rounds):
        for gradient in [learner.slope(plain, round_) for learner in learners]:
            plain = plain - np.float32(0.1 / n) * gradient
        np.testing.assert_allclose(served.evaluated[0, round_], plain, rtol=0, atol=1e-6)
        np.testing.assert_allclose(after(gossip, round_, range(n)), np.tile(plain, (n, 1)), rtol=0, atol=1e-5)
    assert not np.allclose(plain, 0, atol=0.05)


def test_one_node_alone_is_plain_gradient_descent_whatever_the_algorithm() -> None:
    expected = World(1, graph=[[]], rounds=5).run().models[0]
    algorithms = ({"name": "epidemic"}, {"name": "epidemic", "mode": "local"}, {"name": "divshare"}, {"name": "mosaic"})
    for algorithm in algorithms:
        assert World(1, algorithm=algorithm, rounds=5).run().models[0].tobytes() == expected.tobytes()
    for algorithm in ({"name": "fedavg"}, {"name": "parameter-server"}, {"name": "parameter-server", "mode": "async"}):
        served = World(1, algorithm=algorithm, server=True, rounds=5).run()
        np.testing.assert_allclose(served.models[0], expected, rtol=0, atol=1e-6)


def test_fedavg_with_everybody_and_equal_samples_is_a_full_graph() -> None:
    world = World(4, graph=full(4), steps=3, experiment=EVALUATED)
    served = World(
        4, algorithm={"name": "fedavg"}, server=True, steps=3, samples=lambda _: 7, experiment=EVALUATED
    ).run()
    gossip = world.run()
    for round_ in range(3):
        np.testing.assert_allclose(served.evaluated[0, round_], gossip.evaluated[2, round_], rtol=0, atol=1e-6)


# 5. Everything is a special case of a part


@pytest.mark.parametrize("sharing", ["random", "topk"])
@pytest.mark.parametrize("fraction", [1.0, 1.0 - 1e-9])
def test_sharing_all_is_sharing_in_full(sharing: str, fraction: float) -> None:
    """As a whole, or as a part that leaves nothing out."""
    whole = World(6, graph=IRREGULAR, rounds=6).run()
    options = {"name": sharing, "fraction": fraction, "dense_above": 1.0}
    part = World(6, graph=IRREGULAR, rounds=6, experiment={"sharing": options}).run()
    if fraction == 1:
        assert part.journals == whole.journals
        assert [model.tobytes() for model in part.models] == [model.tobytes() for model in whole.models]
    else:
        np.testing.assert_allclose(part.models, whole.models, rtol=0, atol=1e-5)
        assert part.shipped.payload == whole.shipped.payload
        assert part.shipped.metadata > whole.shipped.metadata


@pytest.mark.parametrize("sharing", ["random", "topk"])
def test_sharing_a_part_still_brings_the_nodes_together(sharing: str) -> None:
    def spread(kind: object, graph: Graph) -> float:
        outcome = World(6, graph=graph, rounds=60, dimension=40, experiment={"sharing": kind}).run()
        return float(np.array(outcome.models).std(axis=0).mean())

    alone, all_of_it = spread("full", [[]] * 6), spread("full", IRREGULAR)
    assert all_of_it < spread({"name": sharing, "fraction": 0.2}, IRREGULAR) < 0.85 * alone


# 7. Bytes


@pytest.mark.parametrize("dimension", [1, 8, 1000])
def test_every_byte_of_dpsgd_is_known_beforehand(dimension: int) -> None:
    rounds = 4
    outcome = World(6, graph=IRREGULAR, rounds=rounds, dimension=dimension).run()
    for rank, neighbours in enumerate(IRREGULAR):
        header = len(Message("model", 0, {"degree": len(neighbours)}, (np.zeros(dimension, np.float32),)).header)
        messages = len(neighbours) * rounds
        exactly = Count(messages * 4 * dimension, messages * header, 0, messages)
        assert outcome.end(rank).sent == exactly
        assert outcome.end(rank).received.payload == exactly.payload
        by_round = [record.sent for record in outcome.rounds(rank)]
        assert (
            by_round == [Count(len(neighbours) * 4 * dimension, len(neighbours) * header, 0, len(neighbours))] * rounds
        )


@given(st.integers(0, 1000), st.sampled_from(["full", "topk", "random"]))
@settings(max_examples=examples(15), deadline=None)
def test_what_is_sent_is_received_or_lost(seed: int, sharing: str) -> None:
    chance = stream(seed, "test")
    world = World(
        5, graph=ring(5), seed=seed, experiment={"sharing": sharing, "missing": {"after": "1s", "then": "skip"}}
    )
    world.lost = lambda _sender, _to, _message: chance.random() < 0.2
    outcome = world.run()
    sent = [outcome.end(rank).sent for rank in range(5)]
    received = [outcome.end(rank).received for rank in range(5)]
    for kind in ("payload", "metadata", "control", "messages"):
        # Of what was cut, on its way to a peer that was silent or had finished, a part may have left.
        shipped, cut = getattr(outcome.shipped, kind), getattr(outcome.cut, kind)
        assert shipped - cut <= sum(getattr(each, kind) for each in sent) <= shipped
        assert sum(getattr(each, kind) for each in received) == getattr(outcome.arrived, kind)
        ended = (outcome.arrived, outcome.lost, outcome.late, outcome.cut)
        assert shipped == sum(getattr(each, kind) for each in ended)


# 10. Epidemic learning


def test_epidemic_with_nothing_received_keeps_the_model_bit_for_bit() -> None:
    algorithm = {"name": "epidemic", "mode": "local", "fanout": 1, "round_end": "timeout", "timeout": "10ms"}
    late = World(4, algorithm=algorithm, lr=0.0, rounds=3, first_model=apart, latency_s=lambda _sender, _to: 10.0).run()
    for rank in range(4):
        assert late.models[rank].tobytes() == apart(rank).tobytes()
        assert [record.aggregated for record in late.rounds(rank)] == [0, 0, 0]


@pytest.mark.parametrize("round_end", ["notify", "expected", "timeout"])
def test_epidemic_sends_s_models_and_receives_s_on_average(round_end: str) -> None:
    n, fanout, rounds = 12, 3, 25
    algorithm = {"name": "epidemic", "mode": "local", "fanout": fanout, "round_end": round_end, "timeout": "1s"}
    outcome = World(n, algorithm=algorithm, rounds=rounds).run()
    arrived = [record.aggregated for rank in range(n) for record in outcome.rounds(rank)]
    assert sum(arrived) == n * fanout * rounds
    # Binomial(11, 3/11): variance 2.18.
    assert 1.6 < np.var(arrived) < 2.8
    for rank in range(n):
        for record in outcome.rounds(rank):
            assert record.sent.payload == fanout * 4 * 8


# What is sent is what was encoded, and order does not matter


@pytest.mark.parametrize("sharing", ["full", "topk", "random"])
def test_what_arrives_is_what_was_encoded_while_training_goes_on(sharing: str) -> None:
    """Slow links: a node has trained many times before its message is there."""

    def checksum(message: Message) -> str:
        return hashlib.sha256(
            b"".join(bytes(each.tobytes()) for each in (*message.payload, *message.metadata))
        ).hexdigest()

    encoded: dict[tuple[int, int, int], str] = {}
    compared = []

    def ship(sender: int, to: int, message: Message) -> None:
        encoded[sender, to, message.round] = checksum(message)

    def arrive(sender: int, to: int, message: Message) -> None:
        compared.append(checksum(message) == encoded[sender, to, message.round])

    algorithm = {"name": "epidemic", "mode": "local", "fanout": 2, "round_end": "timeout", "timeout": "1ms"}
    world = World(5, algorithm=algorithm, rounds=40, experiment={"sharing": sharing})
    world.latency_s = lambda sender, _to: 0.1 + 0.03 * sender
    world.before_shipping, world.on_arrival = ship, arrive
    outcome = world.run()
    assert len(compared) + outcome.cut.messages == outcome.shipped.messages
    assert len(compared) > 300
    assert all(compared)
    assert max(record.staleness_max for rank in range(5) for record in outcome.rounds(rank)) > 5


def test_a_message_is_a_snapshot_even_where_it_waits_in_the_outbox() -> None:
    """What goes over the wire is taken at encode, not when the link is free."""
    model = np.zeros(3, np.float32)
    message = whole(model, 0)
    model += 1
    assert not message.payload[0].any()


SCENES = {
    "dpsgd": {"graph": IRREGULAR},
    "dynamic": {"degree": 4},
    "sampler": {"degree": 4, "sampler": 1},
    "topk": {"graph": IRREGULAR, "experiment": {"sharing": "topk", **EVALUATED}},
    "random": {"graph": IRREGULAR, "experiment": {"sharing": "random"}},
    "in-flight": {"graph": full(6), "experiment": {"outbox": {"in_flight": 2}}},
    "oracle": {"algorithm": {"name": "epidemic"}},
    "notify": {"algorithm": {"name": "epidemic", "mode": "local", "round_end": "notify"}},
    "timeout": {"algorithm": {"name": "epidemic", "mode": "local", "round_end": "timeout", "timeout": 0.010056}},
    "divshare": {
        "algorithm": {"name": "divshare", "fraction": 0.4, "recipients": 3},
        "experiment": {"outbox": {"policy": "flush", "in_flight": 2}},
    },
    "divshare-reseeded": {"algorithm": {"name": "divshare", "fraction": 0.4, "recipients": 3, "reseed": "round"}},
    "mosaic": {"algorithm": {"name": "mosaic", "fragments": 3}},
    "mosaic-notify": {"algorithm": {"name": "mosaic", "fragments": 3, "round_end": "notify"}},
    "mosaic-timeout": {"algorithm": {"name": "mosaic", "fragments": 3, "round_end": "timeout", "timeout": 0.010056}},
    "gossip-push": {"algorithm": {"name": "gossip", "period": "50ms"}, "graph": IRREGULAR, "steps": 5},
    "gossip-pull": {"algorithm": {"name": "gossip", "mode": "pull", "period": "20ms"}, "graph": full(6)},
    "gossip-both": {"algorithm": {"name": "gossip", "mode": "push-pull", "period": "30ms"}, "graph": ring(6)},
    "teleportation": {"algorithm": {"name": "teleportation", "active": 3}},
    "shatter": {"algorithm": {"name": "shatter", "virtual_nodes": 3}},
    "plexus": {"algorithm": {"name": "plexus", "sample": 3}},
    "plexus-all": {"algorithm": {"name": "plexus", "sample": 4, "aggregate": "all", "fragments": 3}},
    "fedavg": {"algorithm": {"name": "fedavg", "participation": 0.5, "over_selection": 1.7}, "server": True},
    "deadline": {"algorithm": {"name": "fedavg", "deadline": "31ms"}, "server": True, "steps": 1},
    "sync": {"algorithm": {"name": "parameter-server"}, "server": True},
    "async": {"algorithm": {"name": "parameter-server", "mode": "async"}, "server": True, "experiment": EVALUATED},
    "lead": {"algorithm": {"name": "parameter-server", "mode": "async", "max_lead": 1}, "server": True},
}


@pytest.mark.parametrize("uneven", [False, True], ids=["lockstep", "stragglers"])
@pytest.mark.parametrize("scene", SCENES)
def test_nothing_depends_on_the_order_of_equal_times(scene: str, uneven: bool) -> None:
    def step_s(learner: int, _step: int) -> float:
        return 0.01 * (1 + learner // 2) if uneven else 0.01

    first = World(6, rounds=5, step_s=step_s, **SCENES[scene])  # type: ignore[arg-type]
    reference = first.run()
    for seed in range(3):
        order = list(range(first.size))
        stream(seed, "test").shuffle(order)
        world = World(6, rounds=5, step_s=step_s, order=order, **SCENES[scene])  # type: ignore[arg-type]
        outcome = world.run()
        assert outcome.journals == reference.journals
        assert [model.tobytes() for model in outcome.models] == [model.tobytes() for model in reference.models]


def test_another_seed_gives_another_run() -> None:
    for scene in SCENES.values():
        one, other = (World(6, seed=seed, **scene).run() for seed in (1, 2))  # type: ignore[arg-type]
        assert one.models[0].tobytes() != other.models[0].tobytes()


def test_waiting_for_ever_is_noticed() -> None:
    world = World(3, graph=ring(3))
    world.lost = lambda sender, _to, _message: sender == 0
    with pytest.raises(Stalled):
        world.run()
    assert len(plans(world)) == 3
