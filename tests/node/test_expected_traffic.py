"""Whom a node talks to from the beginning, and how large its messages may be."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from testbed.node.choose import choose_sharing
from testbed.node.expected_traffic import largest_message_bytes
from testbed.node.messages import MAX_BUFFER, MAX_HEADER
from testbed.plan.files import split
from testbed.plan.first_peers import first_peers
from tests.runtimes.sim_runs import plan_of

FIVE = """
services: {n: {replicas: 5}}
bridges: [hub]
links: [{from: n, to: hub, latency: 1ms, rate: 1Gbps}]
"""


def peers_of(**settings: object) -> list[tuple[int, ...]]:
    return [first_peers(share) for share in split(plan_of(FIVE, **settings))]


def test_neighbours_of_a_fixed_graph_are() -> None:
    assert peers_of(overlay={"kind": "ring"}) == [(1, 4), (0, 2), (1, 3), (2, 4), (0, 3)]
    assert peers_of(overlay={"kind": "full"})[2] == (0, 1, 3, 4)


def test_with_a_server_it_is_the_server() -> None:
    found = peers_of(algorithm={"name": "fedavg", "server": "n.0"})
    assert found == [(1, 2, 3, 4), (0,), (0,), (0,), (0,)]


def test_in_a_graph_that_changes_nobody_is_but_the_sampler() -> None:
    assert peers_of(overlay={"kind": "regular", "degree": 2, "dynamic": True}) == [()] * 5
    overlay = {"kind": "regular", "degree": 2, "dynamic": True, "peers": "sampler", "sampler": "n.1"}
    assert peers_of(overlay=overlay) == [(1,), (0, 2, 3, 4), (1,), (1,), (1,)]


@pytest.mark.parametrize("name", ["full", "random", "topk"])
@pytest.mark.parametrize("fraction", [0.01, 0.49, 1.0])
def test_every_way_of_sharing_stays_below_and_not_far(name: str, fraction: float) -> None:
    parameters = 10_000
    options = {} if name == "full" else {"fraction": fraction, "dense_above": 1.0}
    plan = plan_of(FIVE, sharing={"name": name, "options": options})
    most = largest_message_bytes(plan.experiment, parameters)
    sharing = choose_sharing(name, options, Random(1))  # noqa: S311
    model = np.arange(parameters, dtype=np.float32)
    sharing.begin(np.zeros_like(model))
    message = sharing.encode(model, 3).with_fields(degree=4)
    assert message.nbytes <= most <= 2 * 4 * parameters + MAX_HEADER


def test_own_code_may_send_more_but_no_more_than_a_frame_holds() -> None:
    plan = plan_of(FIVE, algorithm={"name": "testbed.node.algorithms.dpsgd:DPSGD"})
    assert largest_message_bytes(plan.experiment, 10) == 64 << 20
    assert largest_message_bytes(plan.experiment, 10_000_000) == 16 * 40_000_000
    assert largest_message_bytes(plan.experiment, 1 << 30) == MAX_BUFFER // 2 - 1
