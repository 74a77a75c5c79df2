"""What a run will cost, against sums done by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.collect.run import collect_run
from testbed.collect.summary import summarise
from testbed.experiment.language import Experiment
from testbed.network.flows.bandwidth_sharing import TWO_WAYS
from testbed.plan.estimate import estimate
from testbed.plan.make import make_plan
from testbed.plan.model import Declared, RunPlan
from testbed.plan.rehearse_rounds import Peers
from testbed.plan.round_messages import parts_of
from testbed.plan.traffic import (
    CONTROL_BYTES,
    HEADER_BYTES,
    message_bytes,
    neighbours_in,
    shuffled_bytes_s,
    steps_per_round,
)
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form
from tests.plan.test_make import nodes
from tests.runtimes.sim_runs import plan_of as sim_plan
from tests.runtimes.sim_runs import run

PARAMETERS = 250_000
MODEL = 4 * PARAMETERS + HEADER_BYTES
WAITING = 1 - 10 * 1448 / MODEL
"""The part of a model that does not fit into a window: within 4 ms, windows of ten segments are more than enough."""
SENT_S = MODEL / (1448 / 1500) / 0.5e6 * (1 + 52 / 3000 + TWO_WAYS * WAITING)
"""Of a model at 4 Mbit/s, headers of segments and acknowledgements included; all links are full both ways, so
acknowledgements wait, the longer the smaller the window is, and it grows a little."""


def plan_of(count: int, parameters: int | None = PARAMETERS, latency: str = "1ms", **sections: Any) -> RunPlan:
    experiment = Experiment.model_validate({"topology": "t", **sections})
    return make_plan(
        experiment, nodes(count, latency=latency), run_id="r", parameters=parameters, nominal_ms_per_step=10
    )


@pytest.mark.parametrize(("kind", "edges"), [("ring", 12), ("full", 66), ("star", 11)])
@pytest.mark.slow
def test_every_edge_carries_a_model_each_way(kind: str, edges: int) -> None:
    cost = estimate(plan_of(12, overlay=kind, stop={"rounds": 3}))
    assert cost.round_bytes == 2 * edges * MODEL
    assert cost.total_bytes == 3 * 2 * edges * MODEL


@pytest.mark.slow
def test_the_ratio_of_full_to_regular_is_exact() -> None:
    full, regular = (estimate(plan_of(12, overlay=kind, stop={"rounds": 3})) for kind in ("full", "regular"))
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


OWN = "mine.py:Mine"
SILENT = Declared(waits=None, sends_to=None, message_bytes=None)
ALL, WAIT, WHOLE = (
    "all send to all neighbours every round",
    "all wait for those that send to them",
    "whole models are sent",
)


def own_plan(declared: Declared | None, count: int = 6, **sections: Any) -> RunPlan:
    return plan_of(count, **{"overlay": "full", **sections}).model_copy(update={"declared": declared})


@pytest.mark.parametrize("declared", [None, SILENT])
def test_what_own_code_does_not_say_is_told_with_the_figures(declared: Declared | None) -> None:
    cost = estimate(own_plan(declared, algorithm=OWN))
    assert cost.assumed == (ALL, WAIT)
    assert (cost.message_bytes, cost.round_bytes) == (MODEL, 30 * MODEL), "its sharing is known"
    cost = estimate(own_plan(declared, sharing=OWN))
    assert cost.assumed == (WHOLE,)
    assert (cost.message_bytes, cost.round_bytes) == (None, 30 * MODEL), "what a message takes is not known"
    assert estimate(own_plan(SILENT)).assumed == ()


def test_what_own_code_says_is_taken() -> None:
    said = Declared(waits=False, sends_to=1, message_bytes=1000)
    plan = own_plan(said, algorithm=OWN, sharing=OWN)
    cost = estimate(plan)
    assert cost.assumed == ()
    assert (cost.message_bytes, cost.round_bytes) == (1000 + HEADER_BYTES, 6 * (1000 + HEADER_BYTES))
    assert cost.round_s == pytest.approx(cost.compute_s), "no node waits"
    assert RunPlan.model_validate(plan.document()) == plan
    all_of_them = said.model_copy(update={"sends_to": "neighbours", "waits": True})
    cost = estimate(own_plan(all_of_them, algorithm=OWN, sharing=OWN))
    assert cost.round_bytes == 30 * (1000 + HEADER_BYTES)
    assert cost.round_s is not None
    assert cost.round_s > cost.compute_s
    none = said.model_copy(update={"sends_to": 0})
    assert estimate(own_plan(none, algorithm=OWN, sharing=OWN)).round_bytes == 0
    many = said.model_copy(update={"sends_to": 9})
    assert estimate(own_plan(many, algorithm=OWN, sharing=OWN)).round_bytes == 30 * (1000 + HEADER_BYTES), "all it has"


@pytest.mark.slow
def test_nobody_waits_in_a_run_too_large_to_be_rehearsed() -> None:
    said = Declared(waits=False, sends_to="neighbours", message_bytes=None)
    large = own_plan(said, count=130, algorithm=OWN)
    cost = estimate(large)
    assert cost.peak_is_bound, "it was not rehearsed"
    assert cost.round_s == pytest.approx(cost.compute_slowest_s)


def test_a_server_sends_to_all_and_hears_from_all() -> None:
    assert estimate(plan_of(11, algorithm="fedavg")).round_bytes == 20 * MODEL
    assert estimate(plan_of(11, algorithm={"name": "fedavg", "participation": 0.3})).round_bytes == 6 * MODEL


@pytest.mark.slow
def test_messages_without_a_model_count_too() -> None:
    notify = {"name": "epidemic", "mode": "local", "fanout": 3, "round_end": "notify"}
    assert estimate(plan_of(10, algorithm=notify)).round_bytes == 30 * MODEL + 10 * 6 * CONTROL_BYTES
    asked = {"degree": 3, "dynamic": True, "peers": "sampler"}
    assert estimate(plan_of(10, overlay=asked)).round_bytes == 30 * MODEL + 20 * CONTROL_BYTES


def test_who_draws_its_peers_does_not_draw_itself() -> None:
    plan = plan_of(4, algorithm={"name": "epidemic", "mode": "local", "fanout": 2})
    drawn = [pair for round_ in range(9) for pair in _pairs(plan, round_)]
    assert len(drawn) == 9 * 4 * 2
    assert all(sender != to for sender, to in drawn)
    assert len(set(drawn)) == 4 * 3, "each round others"


def _pairs(plan: RunPlan, round_: int) -> list[tuple[int, int]]:
    parts = parts_of(plan)
    assert isinstance(parts, Peers)
    return [(sender, post.to) for sender, posts in parts.messages(round_).items() for post in posts]


def test_time_of_a_transfer() -> None:
    """Two access links of 8 Mbit/s and 1 ms: the window is never what holds it up, two messages share the rate."""
    cost = estimate(plan_of(5, overlay="ring"))
    assert cost.transfer_s == pytest.approx(0.002 + SENT_S, rel=0.01)
    assert cost.compute_s == pytest.approx(0.05)
    assert cost.round_s == pytest.approx(0.05 + 0.002 + SENT_S, rel=0.01)
    # and a handshake before the first
    assert cost.total_s == pytest.approx(50 * (0.052 + SENT_S) + 0.004, rel=0.01)


def test_slow_start_counts_where_the_way_is_long() -> None:
    text = b"services: {a: , b: }\nlinks: [{from: a, to: b, latency: 100ms, rate: unlimited}]\n"
    topology = load_bytes(text, Form.YAML, "t.yaml").require()
    once, often = (
        estimate(
            make_plan(
                Experiment.model_validate({"topology": "t", "stop": {"rounds": rounds}}),
                topology,
                run_id="r",
                parameters=83_754,
            )
        )
        for rounds in (1, 50)
    )
    # 14.5, 29, 58, 116 kB and the rest of 335 kB: four round trips of 200 ms, and one way
    assert once.transfer_s == pytest.approx(0.9, abs=0.02)
    # the window stays open for those who go on at once
    assert often.transfer_s == pytest.approx(0.1, abs=0.02)


def test_stragglers_hold_up_their_neighbours() -> None:
    slow = {"factors": [{"nodes": "a.0", "factor": 21}]}
    # small models and a long way, so that nothing but time of computing and latency counts
    plain, held_up = (estimate(plan_of(6, 1000, "500ms", overlay="ring", **more)) for more in ({}, {"compute": slow}))
    assert plain.round_s is not None
    assert held_up.round_s is not None
    assert held_up.compute_slowest_s == pytest.approx(1.05)
    # it is in turn with a fast neighbour, so half of its second counts
    assert held_up.round_s - plain.round_s == pytest.approx(0.5, abs=0.001)


def test_time_may_end_it_first() -> None:
    cost = estimate(plan_of(5, overlay="ring", stop={"time": "10s"}))
    assert cost.rounds is None
    assert cost.total_s == 10
    assert cost.total_bytes == pytest.approx(10 / (0.052 + SENT_S) * 10 * MODEL, rel=0.01)


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
    assert steps_per_round(plan) == 2 * 10  # what is too small for a batch is left out


SMALL = """
services:
  node: {replicas: 6}
bridges: [hub]
links:
  - {from: node, to: hub, latency: 20ms, rate: 10Mbps}
"""
SETTINGS: dict[str, dict[str, Any]] = {
    "regular": {"overlay": {"kind": "regular", "degree": 3}},
    "dynamic": {"overlay": {"kind": "regular", "degree": 3, "dynamic": True}},
    "sampler": {"overlay": {"kind": "regular", "degree": 3, "dynamic": True, "peers": "sampler"}},
    "stragglers": {"overlay": "ring", "compute": {"ms_per_step": 20, "factors": [{"nodes": "node.2", "factor": 15}]}},
    "inline": {"evaluation": {"mode": "inline", "every": 2, "samples": 100}},
    "topk": {"sharing": {"name": "topk", "fraction": 0.1}},
    "oracle": {"algorithm": {"name": "epidemic", "fanout": 3}},
    "expected": {"algorithm": {"name": "epidemic", "mode": "local", "fanout": 2}},
    "notify": {"algorithm": {"name": "epidemic", "mode": "local", "fanout": 2, "round_end": "notify"}},
    "timeout": {
        "algorithm": {"name": "epidemic", "mode": "local", "fanout": 2, "round_end": "timeout", "timeout": 0.7}
    },
    "divshare": {"algorithm": {"name": "divshare", "fraction": 0.25}, "compute": {"ms_per_step": 200}},
    "mosaic": {"algorithm": {"name": "mosaic", "fragments": 4}},
    "mosaic, told": {"algorithm": {"name": "mosaic", "fragments": 4, "fanout": 2, "round_end": "notify"}},
    "mosaic by timeouts": {"algorithm": {"name": "mosaic", "fragments": 4, "round_end": "timeout", "timeout": 0.7}},
    "shatter": {"algorithm": {"name": "shatter", "virtual_nodes": 4}},
    "shatter, many links": {"algorithm": {"name": "shatter", "virtual_nodes": 3, "degree": 10}},
    "plexus": {"algorithm": {"name": "plexus", "sample": 6, "success_fraction": 1}},
    "plexus, all": {"algorithm": {"name": "plexus", "sample": 6, "success_fraction": 1, "aggregate": "all"}},
    "fedavg": {"algorithm": "fedavg"},
    "some clients": {"algorithm": {"name": "fedavg", "participation": 0.4, "over_selection": 1.5}},
    "synchronous server": {"algorithm": "parameter-server"},
    "asynchronous server": {"algorithm": {"name": "parameter-server", "mode": "async"}},
}


def test_views_cost_what_was_said(tmp_path: Path) -> None:
    """Each second the same, however long a round is."""

    def gossiping(period: str) -> RunPlan:
        overlay = {"kind": "cyclon", "degree": 3, "view": 4, "period": period}
        plan = sim_plan(SMALL, stop={"rounds": 20}, algorithm={"name": "gossip", "period": "500ms"}, overlay=overlay)
        return plan.model_copy(update={"parameters": 2410})

    often, seldom = gossiping("200ms"), gossiping("1000s")
    directory, outcome = run(often, tmp_path)
    control = summarise(collect_run(directory)).bytes.control_sent
    assert control == pytest.approx(shuffled_bytes_s(often) * outcome.t, rel=0.1)
    cost, without = estimate(often), estimate(seldom)
    assert cost.total_s == without.total_s
    assert cost.total_bytes is not None
    assert without.total_bytes is not None
    assert cost.total_s is not None
    assert cost.round_s is not None
    assert cost.round_bytes is not None
    assert without.round_bytes is not None
    assert cost.total_bytes - without.total_bytes == pytest.approx(shuffled_bytes_s(often) * cost.total_s, rel=0.01)
    assert cost.round_bytes - without.round_bytes == pytest.approx(shuffled_bytes_s(often) * cost.round_s, rel=0.01)


def test_neighbours_from_views_are_estimated_as_random_ones() -> None:
    plan = plan_of(10, algorithm={"name": "gossip"}, overlay={"kind": "cyclon", "degree": 3})
    drawn = [neighbours_in(plan, round_) for round_ in range(9)]
    for each in drawn:
        assert all(len(set(others) - {rank}) == 3 for rank, others in each.items())
    assert len({(rank, other) for each in drawn for rank, others in each.items() for other in others}) > 80


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_takes_as_long_and_sends_as_much_as_was_said(name: str, tmp_path: Path) -> None:
    """With more rounds than are rehearsed. What is drawn otherwise in the run may differ by a little."""
    plan = sim_plan(SMALL, **{"stop": {"rounds": 20}, **SETTINGS[name]})
    plan = plan.model_copy(update={"parameters": 2410})
    cost = estimate(plan)
    directory, outcome = run(plan, tmp_path)
    assert outcome.reason == "finished"
    assert cost.total_s == pytest.approx(outcome.t, rel=0.1)
    sent = summarise(collect_run(directory)).bytes.sent
    assert cost.total_bytes == pytest.approx(sent, rel=0.04)


@pytest.mark.soaked
@pytest.mark.slow
def test_with_too_many_messages_to_rehearse_the_envelope_is_near() -> None:
    """The same star with more and more nodes: each sends and gets all others' models over its own link."""
    rehearsed, reckoned = (
        estimate(sim_plan(SMALL.replace("6", str(count)), overlay="full").model_copy(update={"parameters": 83_754}))
        for count in (40, 90)
    )
    for cost, others in ((rehearsed, 39), (reckoned, 89)):
        by_hand = others * (4 * 83_754 + HEADER_BYTES) * 8 / 10e6 / (1448 / 1500) * (1 + TWO_WAYS)
        assert cost.round_s == pytest.approx(by_hand, rel=0.1)
