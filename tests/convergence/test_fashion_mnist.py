"""The order of overlays on real pictures, of which every learner sees two classes."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.errors import TestbedError
from testbed.node.data.fetch import ensure
from tests.convergence.learning import DEGREE, NODES, OVERLAYS, SEEDS, accuracy, learned, payload

pytestmark = [pytest.mark.slow, pytest.mark.processes]  # the data is fetched where it is not there

SETTINGS: dict[str, Any] = {
    "data": {"name": "fashion-mnist", "partition": {"kind": "shards", "per_node": 2}},
    "model": {"name": "logistic"},
    "training": {"lr": 0.05, "batch": 8, "steps": 5},
    "stop": {"rounds": 40},
    "evaluation": {"every": 40, "samples": 500},
    "seeds": SEEDS[:1],
}


@pytest.mark.soaked
def test_the_order_of_overlays() -> None:
    """Full > d-regular > ring, dynamic > static, and exactly (n−1)/d times the bytes."""
    try:
        ensure("fashion-mnist")
    except TestbedError as problem:
        pytest.skip(f"no Fashion-MNIST: {problem}")
    runs = {name: learned(overlay=overlay, **SETTINGS) for name, overlay in OVERLAYS.items()}
    score = {name: accuracy(found) for name, found in runs.items()}
    assert score["full"] > score["dynamic"] + 0.02
    assert score["dynamic"] > score["regular"] + 0.01
    assert score["regular"] > score["ring"] + 0.05
    assert 0.7 < score["full"] < 0.9
    assert payload(runs["full"]) * DEGREE == payload(runs["dynamic"]) * (NODES - 1)
    assert payload(runs["dynamic"]) == payload(runs["regular"])
