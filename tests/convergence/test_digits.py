"""Shapes of published figures on digits: which overlay, which sharing, which algorithm learns better."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.collect.summary import RunSummary
from tests.convergence.learning import DEGREE, NODES, OVERLAYS, SEEDS, accuracy, consensus_distance, learned, payload

pytestmark = pytest.mark.slow

ROUNDS = 40
EVALUATION = {"every": ROUNDS, "samples": 297}
SETTINGS: dict[str, Any] = {"stop": {"rounds": ROUNDS}, "evaluation": EVALUATION}


@pytest.fixture(scope="module")
def by_overlay() -> dict[str, list[RunSummary]]:
    return {name: learned(overlay=overlay, **SETTINGS) for name, overlay in OVERLAYS.items()}


def test_the_order_of_overlays(by_overlay: dict[str, list[RunSummary]]) -> None:
    """Full > dynamic > static > ring at equal rounds, on a partition of two shards a node."""
    score = {name: accuracy(runs) for name, runs in by_overlay.items()}
    assert score["full"] > score["dynamic"] + 0.01
    assert score["dynamic"] > score["regular"] + 0.01
    assert score["regular"] > score["ring"] + 0.1
    assert score["full"] > 0.93
    assert 0.4 < score["ring"] < 0.75


def test_how_far_apart_the_models_stay(by_overlay: dict[str, list[RunSummary]]) -> None:
    """The same order, seen from the weights: a ring mixes so badly, a full graph all in one round."""
    apart = {name: consensus_distance(runs) for name, runs in by_overlay.items()}
    assert apart["ring"] > 3 * apart["regular"] > 3 * apart["dynamic"]
    assert apart["full"] < 1e-5


def test_the_bytes_of_overlays_are_in_the_ratio_of_their_degrees(by_overlay: dict[str, list[RunSummary]]) -> None:
    full, regular, dynamic, ring = (payload(by_overlay[name]) for name in ("full", "regular", "dynamic", "ring"))
    assert full * DEGREE == dynamic * (NODES - 1)
    assert regular == dynamic
    assert ring * DEGREE == dynamic * 2
    parameters = 64 * 32 + 32 + 32 * 10 + 10
    assert dynamic == len(SEEDS) * ROUNDS * NODES * DEGREE * 4 * parameters


@pytest.mark.soaked
def test_at_a_low_rate_a_dynamic_graph_is_there_long_before_a_full_one() -> None:
    """Equal rounds take a full graph as many times longer as it has more to send; dynamic needs few rounds more."""
    settings: dict[str, Any] = {
        **SETTINGS,
        "evaluation": {"every": 5, "samples": 297},
        "target": 0.85,
        "seeds": SEEDS[:1],
    }
    dynamic = learned(overlay=OVERLAYS["dynamic"], rate="2Mbps", **settings)
    full = learned(overlay=OVERLAYS["full"], rate="2Mbps", **settings)
    for sparse, dense in zip(dynamic, full, strict=True):
        assert sparse.time_to_target_s is not None
        assert dense.time_to_target_s is not None
        assert sparse.bytes_to_target is not None
        assert dense.bytes_to_target is not None
        assert sparse.time_to_target_s < 0.6 * dense.time_to_target_s
        assert sparse.bytes_to_target < 0.5 * dense.bytes_to_target
        assert sparse.wall_clock_s is not None
        assert dense.wall_clock_s is not None
        assert 3 < dense.wall_clock_s / sparse.wall_clock_s < 31 / 5
    assert abs(accuracy(dynamic) - accuracy(full)) < 0.06


@pytest.mark.soaked
def test_what_a_tenth_of_a_model_is_worth(by_overlay: dict[str, list[RunSummary]]) -> None:
    """Full sharing > the largest changes, added up > random parameters, at equal rounds."""
    sparse = {
        name: learned(overlay=OVERLAYS["regular"], sharing={"name": name, "fraction": 0.1}, **SETTINGS)
        for name in ("random", "topk")
    }
    assert accuracy(by_overlay["regular"]) > accuracy(sparse["topk"]) + 0.1
    assert accuracy(sparse["topk"]) > accuracy(sparse["random"]) + 0.1
    whole = payload(by_overlay["regular"])
    assert all(payload(runs) == pytest.approx(whole / 10, rel=0.01) for runs in sparse.values())
    # Which parameters these are is metadata: a seed and a count, or every place.
    per_message = {
        name: sum(run.bytes.metadata_sent or 0 for run in runs) / (len(SEEDS) * ROUNDS * NODES * DEGREE)
        for name, runs in sparse.items()
    }
    assert per_message["random"] < 100
    assert 4 * 241 < per_message["topk"] < 4 * 241 + 100


@pytest.mark.soaked
@pytest.mark.parametrize(
    "algorithm",
    [
        {"name": "epidemic", "mode": "oracle", "fanout": DEGREE},
        {"name": "epidemic", "mode": "local", "fanout": DEGREE},
    ],
    ids=lambda each: str(each["mode"]),
)
def test_epidemic_learning_is_about_as_good_as_a_dynamic_graph(
    algorithm: dict[str, Any], by_overlay: dict[str, list[RunSummary]]
) -> None:
    epidemic = learned(algorithm=algorithm, **SETTINGS)
    assert accuracy(epidemic) == pytest.approx(accuracy(by_overlay["dynamic"]), abs=0.02)
    assert accuracy(epidemic) > accuracy(by_overlay["regular"])
    assert payload(epidemic) == payload(by_overlay["dynamic"])


@pytest.mark.soaked
def test_a_server_learns_well_too() -> None:
    """FedAvg as well as a full graph, for 2/31 of its bytes; the parameter server takes one step a round."""
    averaged = learned(algorithm="fedavg", seeds=SEEDS[:1], **SETTINGS)
    assert accuracy(averaged) > 0.93
    assert payload(averaged) == ROUNDS * 2 * (NODES - 1) * 4 * 2410
    rounds: dict[str, Any] = {"stop": {"rounds": 150}, "evaluation": {"every": 150, "samples": 297}}
    steps = learned(algorithm="parameter-server", seeds=SEEDS[:1], **rounds)
    assert accuracy(steps) > 0.9
    at_once = {"name": "parameter-server", "mode": "async"}
    # Every gradient is a whole step there, and 31 of them a round: the rate has to be so much lower.
    gentle: dict[str, Any] = {"training": {"lr": 0.1 / 31, "batch": 8, "steps": 1}}
    assert accuracy(learned(algorithm=at_once, seeds=SEEDS[:1], **gentle, **rounds)) > 0.85
