"""The network at every instant of the timeline, one after the other, is the network looked up for each."""

from __future__ import annotations

import pytest

from testbed.network.graph import Network, expand
from testbed.network.moment import moments, network_at, network_before
from testbed.network.timeline import timeline
from testbed.topologies.bundled import BUNDLED
from testbed.topologies.load import load, load_bytes
from testbed.topologies.model import Topology
from testbed.topologies.source import Form

EVENTFUL = """
services: {a: {replicas: 3}, b: {replicas: 3}, late: {replicas: 2}}
bridges: [r]
links:
  - {from: a, to: r, latency: 1ms, rate: 10Mbps}
  - {from: b, to: r, latency: 1ms, rate: 10Mbps, shared: true}
  - {from: late, to: r, latency: 1ms, rate: 10Mbps}
events:
  - {at: 1s, link: [a, r], state: down, for: 10s}
  - {at: 2s, link: [a, r], rate: 5Mbps}
  - {at: 2s, link: [a.1, r], state: down, for: 2s}
  - {at: 3s, partition: [a, b], for: 4s}
  - {at: 5s, node: late, do: join}
  - {at: 6s, node: b, do: pause, for: 1s, count: 1}
  - {at: 6.5s, node: b.0, do: pause, for: 1s}
  - {at: 8s, bridge: r, state: down, for: 1s}
  - {at: 20s, node: a.0, do: crash}
"""


def same(one: Network, other: Network) -> bool:
    return all(
        (getattr(one, name) == getattr(other, name)).all()
        for name in ("latency_ms", "jitter_ms", "loss", "rate_bps", "up")
    ) and [group.tolist() for group in one.partitions] == [group.tolist() for group in other.partitions]


def topologies() -> list[tuple[str, Topology]]:
    bundled = [(each.name, load(str(each.path)).require()) for each in BUNDLED]
    written = load_bytes(EVENTFUL.encode(), Form.YAML, "t.yaml").require()
    return [("written", written), *((name, given) for name, given in bundled if given.events)]


@pytest.mark.parametrize("given", [given for _, given in topologies()], ids=[name for name, _ in topologies()])
def test_step_by_step_is_the_same_as_from_the_start(given: Topology) -> None:
    network, until_s = expand(given), 60.0
    found = list(moments(given, network, 1, until_s))
    assert [change for _, changes, _ in found for change in changes] == list(timeline(given, 1, until_s))
    times = [at_s for at_s, _, _ in found]
    assert times == sorted(set(times))
    assert found
    for at_s, changes, after in found:
        assert {change.at_s for change in changes} == {at_s}
        assert same(after, network_at(given, network, at_s, seed=1))


def test_a_pause_leaves_the_network_alone() -> None:
    given = load_bytes(EVENTFUL.encode(), Form.YAML, "t.yaml").require()
    after = {at_s: found for at_s, _, found in moments(given, expand(given), 1)}
    assert after[6.5] is after[6.0]
    assert after[8.0] is not after[7.5]
    assert not after[20.0].up.all()


def test_who_joins_later_is_not_there_before() -> None:
    given = load_bytes(EVENTFUL.encode(), Form.YAML, "t.yaml").require()
    network = expand(given)
    before = network_before(given, network)
    assert int((~before.up).sum()) == 4
    assert network.up.all()
    assert same(before, network_at(given, network, 0.0, seed=1))
