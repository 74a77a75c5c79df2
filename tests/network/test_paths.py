"""The path model on networks small enough to know the answer, and on larger ones against networkx."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import networkx as nx
import numpy as np
import pytest

from testbed.network import paths as paths_module
from testbed.network import routing as routing_module
from testbed.network.graph import expand
from testbed.network.paths import Paths, compute_paths
from testbed.seeds import stream
from testbed.topologies.model import Bridge, Link, LinkProperties, Routing, Service, Topology


def link(
    origin: str, dest: str, latency_ms: float = 1.0, rate_bps: float = 1e6, jitter_ms: float = 0.0, loss: float = 0.0
) -> Link:
    return Link(origin, dest, LinkProperties(latency_ms, rate_bps, jitter_ms, loss))


def both(origin: str, dest: str, latency_ms: float = 1.0) -> tuple[Link, Link]:
    return link(origin, dest, latency_ms), link(dest, origin, latency_ms)


def topology(*links: Link, routing: Routing = Routing.HOPS, bridges: str = "") -> Topology:
    return Topology(
        "t", (Service("a"), Service("b"), Service("c")), links, tuple(map(Bridge, bridges)), routing=routing
    )


def collapsed(small: Topology) -> Paths:
    return compute_paths(expand(small))


def route(paths: Paths, source: int, dest: int) -> str:
    return " ".join(paths.network.names[vertex] for vertex in paths.vertices_on(source, dest))


def test_properties_of_a_path_of_three_links() -> None:
    paths = collapsed(
        topology(
            link("a", "x", 1, 3e6, jitter_ms=2, loss=0.1),
            link("x", "y", 10, 1e6, jitter_ms=3, loss=0.2),
            link("y", "b", 100, math.inf, jitter_ms=6, loss=0.5),
            bridges="xy",
        )
    )
    assert paths.latency_ms[0, 1] == 111
    assert paths.jitter_ms[0, 1] == 7
    assert paths.loss[0, 1] == pytest.approx(1 - 0.9 * 0.8 * 0.5, abs=1e-15)
    assert paths.bandwidth_bps[0, 1] == 1e6
    assert paths.hops[0, 1] == 3
    assert not paths.tied[0, 1]
    assert paths.links(0, 1) == [0, 1, 2]


def test_a_single_loss_is_kept_exactly() -> None:
    paths = collapsed(topology(link("a", "x", loss=0.01), link("x", "b"), bridges="x"))
    assert paths.loss[0, 1] == 0.01


def test_hops_come_before_latency_and_latency_before_hops() -> None:
    links = (link("a", "b", 50), link("a", "c", 10), link("c", "b", 10))
    by_hops, by_latency = collapsed(topology(*links)), collapsed(topology(*links, routing=Routing.LATENCY))
    assert (route(by_hops, 0, 1), by_hops.latency_ms[0, 1]) == ("a.0 b.0", 50)
    assert (route(by_latency, 0, 1), by_latency.latency_ms[0, 1]) == ("a.0 c.0 b.0", 20)
    assert by_latency.carried.tolist() == [0, 0, 1]
    assert not by_hops.carried.any()


@pytest.mark.parametrize("by_x", [1, 2, 3])
def test_ties_go_to_the_lower_latency_then_to_the_name(by_x: int) -> None:
    links = (link("a", "y", 1), link("y", "b", 1), link("a", "x", 1), link("x", "b", by_x))
    paths = collapsed(topology(*links, bridges="yx"))
    assert paths.tied[0, 1]
    assert route(paths, 0, 1) == ("a.0 x b.0" if by_x == 1 else "a.0 y b.0")


def test_equal_latency_with_more_hops_is_a_tie_when_routing_by_latency() -> None:
    links = (link("a", "b", 2), link("a", "c", 1), link("c", "b", 1))
    paths = collapsed(topology(*links, routing=Routing.LATENCY))
    assert (route(paths, 0, 1), bool(paths.tied[0, 1])) == ("a.0 b.0", True)
    assert not paths.tied[0, 2]


def test_parallel_links_lower_latency_then_higher_rate_then_document_order() -> None:
    lower = collapsed(topology(link("a", "b", 2, 9e6), link("a", "b", 1, 1e6)))
    faster = collapsed(topology(link("a", "b", 1, 1e6), link("a", "b", 1, 9e6)))
    first = collapsed(topology(link("a", "b"), link("a", "b")))
    assert (lower.links(0, 1), faster.links(0, 1), first.links(0, 1)) == ([1], [1], [0])
    assert lower.tied[0, 1]
    assert faster.tied[0, 1]
    assert first.tied[0, 1]


def test_parallel_links_tie_by_latency_only_when_their_latencies_are_equal() -> None:
    def tied(latency_ms: float) -> bool:
        links = (link("a", "b", 1), link("a", "b", latency_ms))
        return bool(collapsed(topology(*links, routing=Routing.LATENCY)).tied[0, 1])

    assert tied(1)
    assert not tied(1.000001)


def test_zero_latency_there_and_back_is_no_tie() -> None:
    shared = LinkProperties(5, 1e6)
    services = (Service("a", replicas=3), Service("b"))
    links = (Link("a", "x", shared, origin_shared=True), Link("x", "a", shared, dest_shared=True), *both("b", "x"))
    for routing in Routing:
        paths = collapsed(Topology("t", services, links, (Bridge("x"),), routing=routing))
        assert not paths.tied.any()
        assert route(paths, 0, 1) == "a.0 a~x a.1"
        assert (paths.latency_ms[0, 1], paths.latency_ms[0, 3], paths.hops[0, 3]) == (0, 6, 3)


def test_pairs_without_a_path_and_nodes_with_themselves() -> None:
    paths = collapsed(topology(link("a", "x"), link("x", "b"), link("c", "x"), bridges="x"))
    assert paths.reachable.tolist() == [[False, True, False], [False] * 3, [False, True, False]]
    cut_off = (paths.latency_ms, paths.jitter_ms, paths.loss, paths.bandwidth_bps, paths.hops)
    assert [table[1, 0] for table in cut_off] == [math.inf, 0, 1, 0, -1]
    assert [table[1, 1] for table in cut_off] == [0, 0, 0, math.inf, 0]
    assert paths.links(1, 0) == paths.vertices_on(1, 0) == paths.links(1, 1) == []


def test_links_that_are_down_carry_nothing() -> None:
    down = replace(link("a", "b"), starts_down=True)
    assert collapsed(topology(link("a", "x"), link("x", "b"), down, bridges="x")).hops[0, 1] == 2
    assert collapsed(topology(down)).hops[0, 1] == -1


def test_only_the_sources_asked_for() -> None:
    paths = compute_paths(expand(topology(*both("a", "b"), *both("b", "c"))), [2, 0])
    assert paths.hops.tolist() == [[2, 1, 0], [0, 1, 2]]
    assert paths.links(2, 0) == [3, 1]
    with pytest.raises(KeyError):
        paths.links(1, 0)


def test_no_nodes_and_no_links() -> None:
    assert collapsed(Topology("t", (), ())).hops.shape == (0, 0)
    assert collapsed(topology()).hops.tolist() == [[0, -1, -1], [-1, 0, -1], [-1, -1, 0]]


def test_paths_of_hours_over_many_hops_still_add_up() -> None:
    """Their sums in nanoseconds do not fit into 53 bits beside the hops: routing looks at coarser latencies."""
    hour_ms = 3_600_000.0
    bridges = tuple(Bridge(f"r{place}") for place in range(3000))
    chain = [each for place in range(2999) for each in both(f"r{place}", f"r{place + 1}", hour_ms)]
    links = (*chain, *both("a", "r0", 0.25), *both("b", "r2999", 0.5))
    for routing in Routing:
        long = Topology("t", (Service("a"), Service("b")), links, bridges, routing=routing)
        paths = collapsed(long)
        assert paths.hops[0, 1] == 3001
        assert paths.latency_ms[0, 1] == pytest.approx(2999 * hour_ms + 0.75, rel=1e-15)
        assert not paths.tied.any()


def random_topology(seed: int, routing: Routing) -> Topology:
    random = stream(seed, "a network")
    names = [f"s{number}" for number in range(40)] + [f"b{number}" for number in range(20)]
    links = [
        link(origin, dest, random.randrange(1, 30) / 10, random.randrange(1, 9) * 1e6, loss=random.choice([0, 0.01]))
        for origin, dest in (random.sample(names, 2) for _ in range(110))
    ]
    links += [link(each.dest, each.origin, each.properties.latency_ms) for each in links[::2]]
    services, bridges = tuple(Service(name) for name in names[:40]), tuple(Bridge(name) for name in names[40:])
    return Topology("t", services, tuple(links), bridges, routing=routing)


@pytest.mark.parametrize("routing", list(Routing))
@pytest.mark.parametrize("seed", range(3))
def test_lengths_agree_with_networkx(seed: int, routing: Routing) -> None:
    network = expand(random_topology(seed, routing))
    paths = compute_paths(network)
    graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
    graph.add_nodes_from(range(len(network.names)))
    for origin, dest, latency in zip(network.origin, network.dest, network.latency_ms, strict=True):
        tenths = round(float(latency) * 10)
        graph.add_edge(int(origin), int(dest), length=tenths + 10**6 if routing is Routing.HOPS else tenths * 10**3 + 1)
    for source, lengths in nx.all_pairs_dijkstra_path_length(graph, weight="length"):
        for dest in range(network.node_count):
            if source >= network.node_count or source == dest:
                continue
            if dest not in lengths:
                assert paths.hops[source, dest] == -1
                continue
            tenths = round(paths.latency_ms[source, dest] * 10)
            hops = int(paths.hops[source, dest])
            assert lengths[dest] == (hops * 10**6 + tenths if routing is Routing.HOPS else tenths * 10**3 + hops)
            taken = paths.links(source, dest)
            assert len(taken) == hops
            assert network.rate_bps[taken].min() == paths.bandwidth_bps[source, dest]
            assert 1 - np.prod(1 - network.loss[taken]) == pytest.approx(paths.loss[source, dest])


@pytest.mark.parametrize("routing", list(Routing))
def test_working_in_small_blocks_changes_nothing(routing: Routing, monkeypatch: pytest.MonkeyPatch) -> None:
    network = expand(random_topology(7, routing))
    whole = compute_paths(network)
    monkeypatch.setattr(paths_module, "_BLOCK_ELEMENTS", 150)
    monkeypatch.setattr(paths_module, "_ROWS_ELEMENTS", 50)
    monkeypatch.setattr(routing_module, "_CHUNK_ELEMENTS", 20)
    small = compute_paths(network)
    for name in ("latency_ms", "jitter_ms", "loss", "bandwidth_bps", "hops", "tied", "carried", "via"):
        assert np.array_equal(getattr(whole, name), getattr(small, name)), name


def test_routes_do_not_depend_on_the_order_of_declarations() -> None:
    def routes(order: Random | None) -> dict[tuple[str, str], list[str]]:
        original = random_topology(11, Routing.HOPS)
        unique = {(each.origin, each.dest): each for each in original.links}
        links, services, bridges = list(unique.values()), list(original.services), list(original.bridges)
        if order:
            order.shuffle(links)
            order.shuffle(services)
            order.shuffle(bridges)
        paths = collapsed(replace(original, links=tuple(links), services=tuple(services), bridges=tuple(bridges)))
        names = paths.network.names
        ranks = range(paths.network.node_count)
        return {(names[s], names[d]): [names[v] for v in paths.vertices_on(s, d)] for s in ranks for d in ranks}

    assert routes(None) == routes(stream(1, "order")) == routes(stream(2, "order"))
