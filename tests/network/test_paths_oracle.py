"""The path model against the slow one: every property, the route and the tie of every pair of small topologies."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.network.graph import count_directed_links, expand
from testbed.network.paths import compute_paths
from testbed.topologies.model import Bridge, Link, LinkProperties, Routing, Service, Topology
from tests.examples import examples
from tests.network.path_oracle import Oracle

SERVICES = ("a", "b", "c", "d")
BRIDGES = ("x", "y", "z")

properties = st.builds(
    LinkProperties,
    latency_ms=st.sampled_from([0.0, 0.0, 0.1, 0.2, 0.3, 1.0]),
    rate_bps=st.sampled_from([1e6, 2e6, math.inf]),
    jitter_ms=st.sampled_from([0.0, 0.3, 0.4]),
    loss=st.sampled_from([0.0, 0.01, 0.5]),
)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    services = tuple(
        Service(name, replicas=draw(st.sampled_from([1, 1, 2]))) for name in SERVICES[: draw(st.integers(1, 4))]
    )
    bridges = tuple(Bridge(name) for name in draw(st.permutations(BRIDGES))[: draw(st.integers(0, 3))])
    names = [service.name for service in services] + [bridge.name for bridge in bridges]
    endpoints = st.sampled_from([*names, *names, "a.0", "b.*"])
    link = st.builds(
        Link,
        origin=endpoints,
        dest=endpoints,
        properties=properties,
        origin_shared=st.booleans(),
        dest_shared=st.booleans(),
        starts_down=st.sampled_from([False] * 9 + [True]),
    )
    one_way = draw(st.lists(link, max_size=6))
    both_ways = [
        Link(link.dest, link.origin, link.properties, link.dest_shared, link.origin_shared, link.starts_down)
        for link in one_way
        if draw(st.booleans())
    ]
    return Topology("small", services, tuple(one_way + both_ways), bridges, routing=draw(st.sampled_from(Routing)))


@settings(max_examples=examples(400), deadline=None)
@given(topologies())
def test_every_pair_is_as_the_list_of_all_routes_says(topology: Topology) -> None:
    network = expand(topology)
    assert network.link_count == count_directed_links(topology)
    paths = compute_paths(network)
    oracle = Oracle(topology)
    carried = [0] * len(topology.nodes)
    for source in topology.nodes:
        expected = oracle.paths_from(source.name)
        for dest in topology.nodes:
            pair = source.rank, dest.rank
            ours = (paths.latency_ms[pair], paths.jitter_ms[pair], paths.loss[pair], paths.bandwidth_bps[pair])
            if source is dest:
                assert (*ours, paths.hops[pair], paths.tied[pair]) == (0, 0, 0, math.inf, 0, False)
                assert paths.links(*pair) == []
            elif dest.name not in expected:
                assert (*ours, paths.hops[pair], paths.tied[pair]) == (math.inf, 0, 1, 0, -1, False)
                assert paths.links(*pair) == []
            else:
                path = expected[dest.name]
                assert ours == pytest.approx((path.latency_ms, path.jitter_ms, path.loss, path.bandwidth_bps))
                assert (paths.hops[pair], paths.tied[pair]) == (path.hops, path.tied)
                assert tuple(paths.links(*pair)) == path.route
                for vertex in paths.vertices_on(*pair)[1:-1]:
                    if vertex < len(carried):
                        carried[vertex] += 1
    assert paths.carried.tolist() == carried


@settings(max_examples=examples(50), deadline=None)
@given(topologies(), st.data())
def test_some_sources_give_the_same_rows_as_all(topology: Topology, data: st.DataObject) -> None:
    network = expand(topology)
    every = compute_paths(network)
    ranks = range(len(topology.nodes))
    chosen = data.draw(st.lists(st.sampled_from(ranks), unique=True))
    some = compute_paths(network, chosen)
    assert some.sources.tolist() == chosen
    for row, source in enumerate(chosen):
        for name in ("latency_ms", "jitter_ms", "loss", "bandwidth_bps", "hops", "tied"):
            assert getattr(some, name)[row].tolist() == getattr(every, name)[source].tolist()
        assert [some.links(source, dest) for dest in ranks] == [every.links(source, dest) for dest in ranks]
