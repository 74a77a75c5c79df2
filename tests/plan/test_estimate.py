"""What a run will cost, against sums done by hand."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.experiment.language import Experiment
from testbed.plan.estimate import CONTROL_BYTES, HEADER_BYTES, estimate, message_bytes, steps_per_round
from testbed.plan.make import make_plan
from testbed.plan.model import RunPlan
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from tests.plan.test_make import nodes

PARAMETERS = 250_000
MODEL = 4 * PARAMETERS + HEADER_BYTES


def plan_of(count: int, parameters: int | None = PARAMETERS, **sections: Any) -> RunPlan:
    experiment = Experiment.model_validate({"topology": "t", **sections})
    return make_plan(experiment, nodes(count), run_id="r", parameters=parameters, nominal_ms_per_step=10)


@pytest.mark.parametrize(("kind", "edges"), [("ring", 12), ("full", 66), ("star", 11)])
def test_every_edge_carries_a_model_each_way(kind: str, edges: int) -> None:
    cost = estimate(plan_of(12, overlay=kind))
    assert cost.round_bytes == 2 * edges * MODEL
    assert cost.total_bytes == 50 * 2 * edges * MODEL


def test_the_ratio_of_full_to_regular_is_exact() -> None:
    full, regular = estimate(plan_of(12, overlay="full")), estimate(plan_of(12))
    assert full.round_bytes is not None
    assert regular.round_bytes is not None
    assert full.round_bytes / regular.round_bytes == 11 / 5


@pytest.mark.parametrize(
    ("sharing", "size"),
    [
        ("full", MODEL),
        ({"name": "random", "fraction": 0.1}, PARAMETERS * 4 // 10 + HEADER_BYTES),
        ({"name": "topk", "fraction": 0.1}, PARAMETERS * 8 // 10 + HEADER_BYTES),
        ({"name": "topk", "fraction": 0.5}, MODEL),
        ({"name": "topk", "fraction": 0.6, "dense_above": 0.9}, PARAMETERS * 48 // 10 + HEADER_BYTES),
    ],
)
def test_what_a_message_holds(sharing: Any, size: int) -> None:
    assert message_bytes(plan_of(4, sharing=sharing)) == size


def test_a_server_sends_to_all_and_hears_from_all() -> None:
    assert estimate(plan_of(11, algorithm="fedavg")).round_bytes == 20 * MODEL
    assert estimate(plan_of(11, algorithm={"name": "fedavg", "participation": 0.3})).round_bytes == 6 * MODEL


def test_messages_without_a_model_count_too() -> None:
    notify = {"name": "epidemic", "mode": "local", "fanout": 3, "round_end": "notify"}
    assert estimate(plan_of(10, algorithm=notify)).round_bytes == 30 * MODEL + 10 * 6 * CONTROL_BYTES
    asked = {"degree": 3, "dynamic": True, "peers": "sampler"}
    assert estimate(plan_of(10, overlay=asked)).round_bytes == 30 * MODEL + 20 * CONTROL_BYTES


def test_time_of_a_transfer() -> None:
    """Two access links of 8 Mbit/s and 1 ms: the window is never what holds it up, two messages share the rate."""
    cost = estimate(plan_of(5, overlay="ring"))
    assert cost.transfer_s == pytest.approx(0.002 + MODEL / 0.5e6, rel=1e-6)
    assert cost.compute_s == pytest.approx(0.05)
    assert cost.round_s == pytest.approx(0.05 + 0.002 + MODEL / 0.5e6, rel=1e-6)
    assert cost.total_s == pytest.approx(50 * (0.052 + MODEL / 0.5e6), rel=1e-6)


def test_slow_start_counts_where_the_way_is_long() -> None:
    text = b"services: {a: , b: }\nlinks: [{from: a, to: b, latency: 100ms, rate: unlimited}]\n"
    topology = load_bytes(text, Form.YAML, "t.yaml").require()
    cost = estimate(make_plan(Experiment(topology="t"), topology, run_id="r", parameters=83_754))
    # 14.5, 29, 58, 116 kB and the rest of 335 kB: four round trips of 200 ms, and one way
    assert cost.transfer_s == pytest.approx(0.9, abs=0.02)


def test_stragglers_hold_up_their_neighbours() -> None:
    slow = {"factors": [{"nodes": "a.0", "factor": 21}]}
    plain, held_up = estimate(plan_of(6, overlay="ring")), estimate(plan_of(6, overlay="ring", compute=slow))
    assert plain.round_s is not None
    assert held_up.round_s is not None
    assert held_up.compute_slowest_s == pytest.approx(1.05)
    # it is in turn with a fast neighbour, so half of its second counts
    assert held_up.round_s - plain.round_s == pytest.approx(0.5)


def test_time_may_end_it_first() -> None:
    cost = estimate(plan_of(5, overlay="ring", stop={"time": "10s"}))
    assert cost.rounds is None
    assert cost.total_s == 10
    assert cost.total_bytes == pytest.approx(10 / (0.052 + MODEL / 0.5e6) * 10 * MODEL, rel=1e-6)


def test_what_is_not_known_is_none() -> None:
    cost = estimate(plan_of(5, parameters=None))
    assert (cost.message_bytes, cost.round_s, cost.total_s) == (None, None, None)
    assert cost.compute_s > 0
    assert estimate(plan_of(5, stop={"accuracy": 0.5})).total_bytes is None


def test_one_node_alone_sends_nothing() -> None:
    cost = estimate(plan_of(1))
    assert (cost.round_bytes, cost.transfer_s, cost.round_s) == (0, None, cost.compute_s)


def test_epochs_are_steps() -> None:
    experiment = Experiment.model_validate({"topology": "t", "training": {"epochs": 2, "batch": 8}})
    plan = make_plan(experiment, nodes(3), run_id="r", samples=(81, 40, 100))
    assert steps_per_round(plan) == 2 * 11
