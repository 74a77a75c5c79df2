"""Expansion: which vertices and links a topology stands for."""

from __future__ import annotations

import math

import pytest

from testbed.network.graph import Network, count_directed_links, expand
from testbed.topologies.model import MAX_DIRECTED_LINKS, Bridge, Link, LinkProperties, Service, Topology

PLAIN = LinkProperties(latency_ms=5.0, rate_bps=1e6, jitter_ms=1.0, loss=0.25)
OTHER = LinkProperties(latency_ms=7.0, rate_bps=math.inf)


def drawn(network: Network) -> list[str]:
    """Every link as `origin>dest`."""
    ends = zip(network.origin.tolist(), network.dest.tolist(), strict=True)
    return [f"{network.names[origin]}>{network.names[dest]}" for origin, dest in ends]


def topology(*links: Link, a: int = 2, b: int = 1, bridges: str = "x") -> Topology:
    services = (Service("a", replicas=a), Service("board", supervisor=True), Service("b", replicas=b))
    return Topology("t", services, links, tuple(Bridge(name) for name in bridges))


def test_vertices_are_nodes_then_bridges_then_meeting_points() -> None:
    network = expand(topology(Link("x", "a", PLAIN, dest_shared=True), bridges="yx"))
    assert network.names == ("a.0", "a.1", "b.0", "y", "x", "a~x")
    assert (network.node_count, network.bridge_count) == (3, 2)


def test_a_link_between_groups_is_every_pair_of_members_origin_first() -> None:
    network = expand(topology(Link("a", "b", PLAIN), Link("b.1", "x", OTHER), a=2, b=2))
    assert drawn(network) == ["a.0>b.0", "a.0>b.1", "a.1>b.0", "a.1>b.1", "b.1>x"]
    assert network.declared.tolist() == [0, 0, 0, 0, 1]
    assert network.latency_ms.tolist() == [5, 5, 5, 5, 7]
    assert network.jitter_ms.tolist() == [1, 1, 1, 1, 0]
    assert network.loss.tolist() == [0.25] * 4 + [0]
    assert network.rate_bps.tolist() == [1e6] * 4 + [math.inf]
    assert not network.access_leg.any()


def test_patterns_and_overlapping_ends_never_link_a_node_to_itself() -> None:
    network = expand(topology(Link("*.0", "a", PLAIN), a=2, b=1))
    assert drawn(network) == ["a.0>a.1", "b.0>a.0", "b.0>a.1"]


def test_links_that_start_down_are_there_but_not_up() -> None:
    network = expand(topology(Link("b", "x", PLAIN), Link("a", "x", PLAIN, starts_down=True)))
    assert network.up.tolist() == [True, False, False]


def test_both_directions_of_a_shared_link_meet_at_the_same_point() -> None:
    forward = Link("a", "x", PLAIN, origin_shared=True)
    back = Link("x", "a", OTHER, dest_shared=True)
    network = expand(topology(forward, back))
    assert drawn(network) == ["a.0>a~x", "a.1>a~x", "a~x>x", "x>a~x", "a~x>a.0", "a~x>a.1"]
    assert network.latency_ms.tolist() == [0, 0, 5, 7, 0, 0]
    assert network.jitter_ms.tolist() == [0, 0, 1, 0, 0, 0]
    assert network.loss.tolist() == [0, 0, 0.25, 0, 0, 0]
    assert network.rate_bps.tolist() == [1e6] * 3 + [math.inf] * 3
    assert network.access_leg.tolist() == [True, True, False, False, True, True]
    assert network.declared.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_link_shared_at_both_ends_has_its_properties_between_the_meeting_points() -> None:
    network = expand(topology(Link("a", "b", PLAIN, origin_shared=True, dest_shared=True), b=2))
    assert drawn(network) == ["a.0>a~b", "a.1>a~b", "a~b>b~a", "b~a>b.0", "b~a>b.1"]
    assert network.latency_ms.tolist() == [0, 0, 5, 0, 0]


def test_sharing_with_oneself_is_no_sharing() -> None:
    network = expand(topology(Link("b", "x", PLAIN, origin_shared=True)))
    assert drawn(network) == ["b.0>x"]
    assert network.names == ("a.0", "a.1", "b.0", "x")


def test_a_meeting_point_never_takes_a_name_that_is_taken() -> None:
    link = Link("a", "x", PLAIN, origin_shared=True)
    network = expand(Topology("t", (Service("a", replicas=2),), (link,), (Bridge("x"), Bridge("a~x"))))
    assert network.names[-2:] == ("a~x", "a~x~")


def test_a_link_to_nothing_makes_nothing() -> None:
    network = expand(topology(Link("a", "nobody.*", PLAIN, origin_shared=True)))
    assert network.link_count == 0
    assert network.names == ("a.0", "a.1", "b.0", "x")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    "ends", [("a", "a"), ("a", "*"), ("*.1", "a.*"), ("a", "x"), ("x", "x"), ("b", "x"), ("a", "b")]
)
def test_links_are_counted_without_making_them(ends: tuple[str, str], shared: bool) -> None:
    for origin_shared in (False, shared):
        link = Link(*ends, PLAIN, origin_shared=origin_shared, dest_shared=shared)
        small = topology(link, link, a=3, b=1)
        assert count_directed_links(small) == expand(small).link_count


def test_too_large_networks_are_counted_at_once() -> None:
    huge = topology(Link("a", "a", PLAIN), a=50_000)
    assert count_directed_links(huge) == 50_000 * 49_999 > MAX_DIRECTED_LINKS


def test_no_links() -> None:
    network = expand(topology())
    assert network.link_count == count_directed_links(topology()) == 0
    assert network.origin.dtype == network.dest.dtype == "int32"
