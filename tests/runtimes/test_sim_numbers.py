"""Whether a run in virtual time computes, counts and times what it should: against loops and sums done by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from testbed.network.flows import Tcp
from testbed.node.data.experiment_data import partition_data
from testbed.node.snapshots import newest_snapshot
from testbed.node.trainer_of import make_trainer
from testbed.plan.files import write_plan
from testbed.plan.model import RunPlan
from testbed.records import Count, End, Event, Round
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.sim.prepare import prepared
from testbed.runtimes.sim.run import SimRun
from testbed.topologies.bundled import find_bundled
from testbed.topologies.load import load
from tests.runtimes.sim_runs import plan_of, records, run, star, texts

PARAMETERS = 64 * 32 + 32 + 32 * 10 + 10
SCATTERED = f"{Path(__file__).parent / 'scattered.py'}:Scattered"

Vector = NDArray[np.float32]


def plain_sgd(plan: RunPlan, learners: int, rounds: int, *, steps: int | None = None) -> Vector:
    """Learner 0's model after plain stochastic gradient descent, without any network."""
    data = partition_data(plan.experiment, learners, plan.seed)
    trainer = make_trainer(plan.experiment, data.dataset, plan.seed)
    count = rounds * (trainer.steps_per_round(data.sizes[0]) if steps is None else steps)
    out, velocity = trainer.initial(), np.zeros(trainer.parameters, np.float32)
    for step in range(count):
        before = out.copy()
        trainer.train(before, learner=0, indices=data.parts[0], first_step=step, steps=1, velocity=velocity, out=out)
    return out


def models(directory: RunDirectory, parameters: int = PARAMETERS) -> list[Vector]:
    """The last snapshots, in the order of ranks."""
    names = sorted(directory.node_names(), key=lambda name: int(name.rpartition(".")[2]) if "." in name else 0)
    found = [newest_snapshot(directory.node(name).snapshots, parameters) for name in names]
    return [snapshot.vector for snapshot in found if snapshot is not None]


TRAININGS: list[dict[str, Any]] = [
    {"lr": 0.1, "batch": 8, "steps": 3},
    {"lr": 0.05, "batch": 8, "steps": 3, "momentum": 0.9},
    {"lr": 0.05, "batch": 32, "epochs": 1, "weight_decay": 0.01},
]


@pytest.mark.parametrize("training", TRAININGS, ids=["plain", "momentum", "epochs"])
@pytest.mark.parametrize("workers", [0, 2])
def test_one_node_alone_is_plain_descent_bit_for_bit(training: dict[str, Any], workers: int, tmp_path: Path) -> None:
    """Momentum goes on from round to round; 1500 samples make 46 whole batches of 32."""
    plan = plan_of(star(1), training=training, snapshots={"every": 1})
    directory, _ = run(plan, tmp_path, workers=workers)
    (model,) = models(directory)
    assert np.array_equal(model, plain_sgd(plan, 1, 4))
    end = records(directory, "node" if "node" in directory.node_names() else "node.0")[-1]
    assert isinstance(end, End)
    assert end.steps == 4 * (46 if "epochs" in training else 3)


def test_fedavg_with_one_client_is_plain_descent_bit_for_bit(tmp_path: Path) -> None:
    plan = plan_of(star(2), algorithm="fedavg", snapshots={"every": 1})
    directory, _ = run(plan, tmp_path, workers=1)
    server, client = models(directory)
    assert np.array_equal(client, plain_sgd(plan, 1, 4))
    assert np.array_equal(server, client)


def test_a_full_graph_with_one_step_is_the_synchronous_parameter_server(tmp_path: Path) -> None:
    """The mean of models one step on is one step by the mean of gradients; but for the order of floats."""
    settings: dict[str, Any] = {
        "training": {"lr": 0.1, "batch": 8, "steps": 1},
        "stop": {"rounds": 6},
        "snapshots": {"every": 1},
    }
    peers, _ = run(plan_of(star(5), overlay="full", **settings), tmp_path / "peers", workers=1)
    served, _ = run(plan_of(star(6), algorithm="parameter-server", **settings), tmp_path / "served", workers=2)
    server = models(served)[0]
    start = plain_sgd(plan_of(star(5), **settings), 5, 0)
    moved = float(np.abs(server - start).max())
    assert moved > 0.01
    for model in models(peers):
        assert float(np.abs(model - server).max()) < 1e-4 * moved


@pytest.mark.parametrize(
    "overlay",
    [{"kind": "small-world", "degree": 4, "rewire": 0.5}, "star", {"kind": "regular", "degree": 3}],
    ids=["small-world", "star", "regular"],
)
def test_averaging_keeps_the_mean_and_brings_the_models_together(overlay: Any, tmp_path: Path) -> None:
    """Whatever the degrees: Metropolis–Hastings weights are doubly stochastic."""
    settings: dict[str, Any] = {
        "algorithm": {"name": SCATTERED},
        "overlay": overlay,
        "training": {"lr": 0.0, "batch": 1, "steps": 1},
        "evaluation": {"mode": "none"},
        "snapshots": {"every": 1},
    }
    spread, mean = [], []
    for rounds in (1, 8):
        directory, _ = run(plan_of(star(10), stop={"rounds": rounds}, **settings), tmp_path / str(rounds))
        found = np.array(models(directory), dtype=np.float64)
        assert len(found) == 10
        mean.append(found.mean(axis=0))
        spread.append(float(found.var(axis=0).mean()))
    assert float(np.abs(mean[1] - mean[0]).max()) < 1e-6
    assert 0 < spread[1] < 0.5 * spread[0] < 1


RATINGS = "userId,movieId,rating,timestamp\n" + "".join(
    f"{user},{item},{(user * 7 + item * 3) % 9 / 2 + 0.5},{user}\n"
    for user in range(8)
    for item in range(user % 3, 30, 2)
)


def same_twice(plan: RunPlan, folder: Path) -> None:
    first, outcome = run(plan, folder / "a")
    assert outcome.reason == "finished"
    assert not outcome.failures
    second, _ = run(plan, folder / "b", workers=2, shuffle=5)
    assert texts(first) == texts(second)


LOSSY = """
services:
  node: {replicas: 5}
bridges: [hub]
links:
  - {from: node, to: hub, latency: 15ms, jitter: 4ms, loss: 0.02, rate: 5Mbps}
"""

AGAIN: dict[str, dict[str, Any]] = {
    "momentum": {"training": {"lr": 0.05, "batch": 8, "steps": 2, "momentum": 0.9}},
    "epochs": {"training": {"lr": 0.05, "batch": 64, "epochs": 1}},
    "inline": {"evaluation": {"every": 1, "samples": 50, "mode": "inline"}},
    "dirichlet": {"data": {"name": "digits", "partition": {"kind": "dirichlet", "alpha": 0.3}}},
    "stragglers": {"compute": {"ms_per_step": 30, "factors": [{"share": 0.4, "between": [1, 6]}]}},
    "random sharing": {"sharing": {"name": "random", "fraction": 0.2}, "outbox": {"in_flight": 1}},
    "reno": {"network": {"congestion": "reno", "share": "rtt-weighted", "idle_restart": False}},
}


@pytest.mark.parametrize("name", AGAIN)
def test_two_runs_over_a_lossy_jittery_network_are_the_same(name: str, tmp_path: Path) -> None:
    same_twice(plan_of(LOSSY, **{"overlay": "full", **AGAIN[name]}), tmp_path)


BREAKS = """events:
  - {at: 300ms, node: node.4, do: crash}
  - {at: 400ms, partition: [[node.0, node.1], [node.2, node.3]], for: 1s}
"""


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["fifo", "flush", "latest"])
def test_two_runs_in_which_messages_are_given_up_are_the_same(policy: str, tmp_path: Path) -> None:
    plan = plan_of(
        LOSSY + BREAKS,
        algorithm={"name": "epidemic", "mode": "local", "round_end": "timeout", "timeout": "20ms", "fanout": 3},
        outbox={"policy": policy, "in_flight": 1},
        missing={"after": "400ms"},
        stop={"rounds": 40},
    )
    same_twice(plan, tmp_path)
    directory = RunDirectory(tmp_path / "a" / "run")
    found = [each for name in directory.node_names() for each in records(directory, name) if isinstance(each, Event)]
    given_up = {each.detail for each in found if each.what == "sends-given-up"}
    assert "to node.4" in given_up
    assert len(given_up) > 1


@pytest.mark.slow
def test_two_runs_on_ratings_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text(RATINGS)
    data = {"name": "movielens", "options": {"path": str(file)}, "partition": "user"}
    same_twice(plan_of(star(4), data=data, model="mf"), tmp_path)


@pytest.mark.slow
def test_two_runs_over_wan16_with_the_default_model_are_the_same(tmp_path: Path) -> None:
    found = find_bundled("topologies/wan16.xml")
    assert found is not None
    code = {"name": f"{Path(__file__).parent / 'pictures.py'}:pictures"}
    plan = plan_of(load(found).require(), data=code, model="gn-lenet", stop={"rounds": 2})
    same_twice(plan, tmp_path)


def totals(directory: RunDirectory) -> tuple[Count, Count]:
    """Sent and received by all nodes, as their last records say; rounds must add up to no more than that."""
    sent = received = Count()
    for name in directory.node_names():
        found = records(directory, name)
        end = found[-1]
        assert isinstance(end, End)
        rounds = [record for record in found if isinstance(record, Round)]
        assert sum(each.sent.payload for each in rounds) <= end.sent.payload
        sent, received = added(sent, end.sent), added(received, end.received)
    return sent, received


def added(one: Count, other: Count) -> Count:
    return Count(
        one.payload + other.payload,
        one.metadata + other.metadata,
        one.control + other.control,
        one.messages + other.messages,
    )


MODEL = 4 * PARAMETERS
TENTH = round(0.1 * PARAMETERS)
NODES, ROUNDS = 6, 4

COUNTED: dict[str, tuple[dict[str, Any], int, int]] = {
    "ring": ({"overlay": "ring"}, NODES * 2 * ROUNDS * MODEL, NODES * 2 * ROUNDS),
    "regular": ({"overlay": {"kind": "regular", "degree": 3}}, NODES * 3 * ROUNDS * MODEL, NODES * 3 * ROUNDS),
    "full": ({"overlay": "full"}, NODES * 5 * ROUNDS * MODEL, NODES * 5 * ROUNDS),
    "star": ({"overlay": "star"}, 2 * 5 * ROUNDS * MODEL, 2 * 5 * ROUNDS),
    "sampler": (  # every round all but the sampler itself ask and are answered
        {"overlay": {"kind": "regular", "degree": 3, "dynamic": True, "peers": "sampler"}},
        NODES * 3 * ROUNDS * MODEL,
        NODES * 3 * ROUNDS + 2 * 5 * ROUNDS,
    ),
    "random": ({"overlay": "full", "sharing": {"name": "random", "fraction": 0.1}}, -1, NODES * 5 * ROUNDS),
    "topk": (
        {"overlay": "full", "sharing": {"name": "topk", "fraction": 0.1}},
        NODES * 5 * ROUNDS * 4 * TENTH,
        NODES * 5 * ROUNDS,
    ),
    "oracle": ({"algorithm": {"name": "epidemic", "fanout": 3}}, NODES * 3 * ROUNDS * MODEL, NODES * 3 * ROUNDS),
    "local": (
        {"algorithm": {"name": "epidemic", "mode": "local", "fanout": 2}},
        NODES * 2 * ROUNDS * MODEL,
        NODES * 2 * ROUNDS,
    ),
    "notify": (  # a node that gets no model gets a note
        {"algorithm": {"name": "epidemic", "mode": "local", "fanout": 2, "round_end": "notify"}},
        NODES * 2 * ROUNDS * MODEL,
        NODES * 5 * ROUNDS,
    ),
    "fedavg": ({"algorithm": "fedavg"}, 2 * 5 * ROUNDS * MODEL, 2 * 5 * ROUNDS + 5),  # and a goodbye to each
    "some clients": (
        {"algorithm": {"name": "fedavg", "participation": 0.4}},
        2 * 2 * ROUNDS * MODEL,
        2 * 2 * ROUNDS + 5,
    ),
    "synchronous server": ({"algorithm": "parameter-server"}, 2 * 5 * ROUNDS * MODEL, 2 * 5 * ROUNDS + 5),
}


@pytest.mark.parametrize("name", COUNTED)
def test_bytes_and_messages_are_those_of_the_formula(name: str, tmp_path: Path) -> None:
    """And all that was sent is received, kind by kind, because no node stops early."""
    settings, payload, messages = COUNTED[name]
    directory, _ = run(plan_of(star(NODES), **{"evaluation": {"mode": "none"}, **settings}), tmp_path)
    sent, received = totals(directory)
    assert sent.messages == messages
    if payload >= 0:
        assert sent.payload == payload
    else:
        assert sent.payload == pytest.approx(messages * 4 * TENTH, rel=0.02)
    assert received == sent


def test_what_was_sent_is_received_or_lost_or_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When time ends a run in the middle of its sends, journals count exactly what had left."""
    settings: dict[str, Any] = {"overlay": "full", "stop": {"time": "2.6s"}, "evaluation": {"mode": "none"}}
    plan = plan_of(star(5, rate="4Mbps"), model={"name": "mlp", "hidden": [1024]}, **settings)
    with prepared(plan, workers=0) as shared:
        directory = create_run(tmp_path, "run")
        write_plan(directory, plan)
        whole = SimRun(plan, directory, shared)
        ship, handed_over = whole._network.ship, whole._network._hand_over
        shipped, arrived = [], set()

        def note(*arguments: Any) -> Any:
            shipment = ship(*arguments)
            shipped.append(shipment)
            return shipment

        def hand_over(rank: int, origin: int, message: Any) -> None:
            arrived.add((origin, rank, message.round))
            handed_over(rank, origin, message)

        monkeypatch.setattr(whole._network, "ship", note)
        monkeypatch.setattr(whole._network, "_hand_over", hand_over)
        assert whole.run().reason == "time"
    sent, received = totals(directory)
    under_way = [each for each in shipped if (each.origin, each.dest, each.message.round) not in arrived]
    left = [each for each in under_way if each.transfer is not None]
    gone = sum(each.own_bytes(each.transfer.kept_bytes) for each in left if each.transfer is not None)
    assert under_way
    assert 0 < gone < sum(each.message.nbytes for each in under_way)
    assert (sent.payload + sent.metadata) - (received.payload + received.metadata) == gone


SLOW = """
services:
  fast: {replicas: 4}
  slow: {replicas: 1}
bridges: [hub]
links:
  - {from: fast, to: hub, latency: 2ms, rate: 100Mbps}
  - {from: slow, to: hub, latency: 2ms, up: 1Mbps, down: 100Mbps}
"""


def test_a_slow_uplink_sets_the_pace_of_all(tmp_path: Path) -> None:
    """Its four models leave side by side, one round's right after the last: 4 × size × 8 / rate, and headers' part."""
    transfer_s, directory, found = slow_uplink(tmp_path, factor=1)
    assert steady_s(found) == pytest.approx(transfer_s, rel=0.02)
    fast = rounds_of(directory, "fast.1")
    assert fast[-1].t - fast[-2].t == pytest.approx(transfer_s, rel=0.02)
    assert fast[-1].phases.wait == pytest.approx(transfer_s - 0.020, rel=0.02)


@pytest.mark.parametrize(("factor", "is_busy"), [(16, False), (31, True)], ids=["in turn", "always computing"])
def test_a_slow_device_behind_a_slow_link(factor: int, *, is_busy: bool, tmp_path: Path) -> None:
    """The others' round r+1 needs its r, and its r+2 theirs: at best it computes one round while it sends another."""
    transfer_s, _, found = slow_uplink(tmp_path, factor)
    compute_s, there_s, answer_s = factor * 0.020, 0.004, 4 * message_bits(found) / 100e6 / Tcp().goodput
    two_rounds_s = compute_s + transfer_s + there_s + 0.020 + answer_s + there_s
    assert (compute_s > two_rounds_s / 2) == is_busy
    assert two_rounds_s / 2 > 1.03 * transfer_s
    assert steady_s(found) == pytest.approx(max(compute_s, two_rounds_s / 2), rel=0.01)


def slow_uplink(folder: Path, factor: float) -> tuple[float, RunDirectory, list[Round]]:
    """How long the slow node's sends of a round take by hand, and what it journalled."""
    compute = {"ms_per_step": 10, "factors": [{"nodes": "slow", "factor": factor}]}
    settings: dict[str, Any] = {"overlay": "full", "stop": {"rounds": 10}, "evaluation": {"mode": "none"}}
    directory, _ = run(plan_of(SLOW, compute=compute, **settings), folder)
    found = rounds_of(directory, "slow.0")
    return 4 * message_bits(found) / 1e6 / Tcp().goodput, directory, found


def message_bits(found: list[Round]) -> float:
    """Of one model on the wire: header and payload, each announced in 9 bytes."""
    return (MODEL + found[0].sent.metadata / 4 + 2 * 9) * 8


def rounds_of(directory: RunDirectory, node: str) -> list[Round]:
    return [record for record in records(directory, node) if isinstance(record, Round)]


def steady_s(found: list[Round]) -> float:
    """Of one round, once all are waiting for each other."""
    return (found[-2].t - found[1].t) / (len(found) - 3)
