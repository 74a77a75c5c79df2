"""What the packet model needs of a network: queues and background traffic, through expansion and through events."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from testbed.network.graph import Network, expand
from testbed.network.moment import network_at
from testbed.network.packets import Packets, Routes
from testbed.topologies.load import load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form
from tests.network.test_flows import network_from

pytestmark = pytest.mark.usefixtures("_each_model")

TEXT = """
services: {a: {replicas: 2}, b: {}}
bridges: [x]
links:
  - {from: a, to: x, latency: 10ms, rate: 12Mbps, shared: true, queue: 64KiB, background: 2Mbps}
  - {from: x, to: b, latency: 10ms, rate: 12Mbps}
events:
  - {at: 10s, link: [x, b], queue: 20ms, background: 3Mbps}
  - {at: 20s, link: [a, x], queue: 40ms, background: 4Mbps}
"""


def topology() -> Topology:
    return load_bytes(TEXT.encode(), Form.YAML, "t.yaml").require()


def of_links(network: Network, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> dict[str, float]:
    ends = zip(network.origin.tolist(), network.dest.tolist(), values.tolist(), strict=True)
    return {f"{network.names[origin]}>{network.names[dest]}": value for origin, dest, value in ends}


def test_a_network_has_queues_on_legs_too_and_background_traffic_once() -> None:
    network = expand(topology())
    queue_bytes, queue_ms = of_links(network, network.queue_bytes), of_links(network, network.queue_ms)
    assert queue_bytes["a.0>a~x"] == queue_bytes["a~x>x"] == queue_bytes["a~x>a.1"] == 65_536
    assert queue_ms["a.0>a~x"] == queue_ms["a~x>x"] == math.inf
    assert (queue_ms["x>b.0"], queue_bytes["x>b.0"]) == (250.0, math.inf)
    background = of_links(network, network.background_bps)
    assert (background["a~x>x"], background["x>a~x"]) == (2e6, 2e6)
    assert background["a.0>a~x"] == background["a~x>a.0"] == background["x>b.0"] == 0.0


def test_events_change_queues_and_background_traffic() -> None:
    before = expand(topology())
    at_10 = network_at(topology(), before, 10.0, seed=1)
    at_20 = network_at(topology(), before, 20.0, seed=1)
    assert of_links(at_10, at_10.queue_ms)["x>b.0"] == 20.0
    assert of_links(at_10, at_10.background_bps)["x>b.0"] == 3e6
    assert of_links(at_10, at_10.queue_bytes)["a~x>x"] == 65_536
    queue_ms, background = of_links(at_20, at_20.queue_ms), of_links(at_20, at_20.background_bps)
    assert (queue_ms["a.0>a~x"], queue_ms["a~x>x"]) == (40.0, 40.0)
    assert of_links(at_20, at_20.queue_bytes)["a~x>x"] == math.inf
    assert (background["a.0>a~x"], background["a~x>x"]) == (0.0, 4e6)
    assert before.background_bps.max() == 2e6


def test_a_change_of_queue_and_background_reaches_the_packets() -> None:
    before = expand(topology())
    packets = Packets(before, seed=1)
    packets.change(10.0, network_at(topology(), before, 10.0, seed=1))
    for number in range(4000):
        packets.offer(10.0 + number * 0.0005, 2, 0, [1500])
    packets.advance(13.0)
    links = packets.snapshot().links
    (into,) = links.link[links.dropped_queue > 0].tolist()
    assert before.names[before.origin[into]] == "b.0"
    assert links.queue_max_s[links.link == into][0] == pytest.approx(0.02, abs=0.001)
    assert links.packets[links.link == into][0] == pytest.approx(2 * 750, abs=30)


STUBS = """
services: {a: {replicas: 3}, b: {replicas: 3}}
bridges: [x, y, z]
links:
  - {from: a, to: x, latency: 1ms, rate: 12Mbps}
  - {from: b, to: y, latency: 1ms, rate: 12Mbps}
  - {from: x, to: y, latency: 1ms, rate: 12Mbps}
  - {from: x, to: z, latency: 1ms, rate: 12Mbps}
  - {from: z, to: y, latency: 1ms, rate: 12Mbps}
"""


def test_routes_hold_when_only_the_last_links_change() -> None:
    network = network_from(STUBS)
    routes = Routes(network)
    last = (network.origin < network.node_count) | (network.dest < network.node_count)
    assert routes.hold(network)
    assert routes.hold(replace(network, up=~last))
    assert routes.hold(replace(network, latency_ms=network.latency_ms + last, rate_bps=network.rate_bps * 2))
    assert routes.hold(replace(network, loss=network.loss + 0.5))
    assert not routes.hold(replace(network, latency_ms=network.latency_ms + ~last))
    assert not routes.hold(replace(network, up=last))
    assert not Routes(replace(network, up=~last)).hold(network)


def test_routes_do_not_hold_when_one_of_parallel_links_changes() -> None:
    twice = network_from(STUBS + "  - {from: a, to: x, latency: 2ms, rate: 12Mbps}\n")
    last = (twice.origin < twice.node_count) | (twice.dest < twice.node_count)
    routes = Routes(twice)
    assert routes.hold(twice)
    for changed in (
        replace(twice, up=~last),
        replace(twice, latency_ms=twice.latency_ms + last),
        replace(twice, rate_bps=twice.rate_bps * 2),
    ):
        assert not routes.hold(changed)


def test_prepared_routes_are_used() -> None:
    network = network_from(STUBS)
    ends = {(int(one), int(other)) for one, other in zip(network.origin, network.dest, strict=True)}
    assert len(ends) == network.link_count
    direct = {network.names.index("x"), network.names.index("y")}
    straight = np.array([{int(a), int(b)} == direct for a, b in zip(network.origin, network.dest, strict=True)])
    round_about = replace(network, up=~straight)
    packets = Packets(network, seed=1, routes=Routes(network))
    packets.change(1.0, round_about, Routes(round_about))
    packets.offer(1.0, 0, 3, [1500])
    (arrival,) = packets.advance(2.0)
    assert arrival.due_s == pytest.approx(1.008, abs=1e-9)
    packets.change(2.0, network, Routes(round_about))
    packets.offer(2.0, 0, 3, [1500])
    (arrival,) = packets.advance(3.0)
    assert arrival.due_s == pytest.approx(2.006, abs=1e-9), "what was prepared is of another network"


@pytest.mark.processes
def test_the_model_needs_no_scipy_until_paths_are_worked_out() -> None:
    code = "import sys, testbed.network.packets; sys.exit('scipy' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
