"""Generators: the shape that was asked for, connected, within bounds, and the same for the same arguments."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InvalidInput, UsageProblem
from testbed.topologies.generate import random_shapes, shapes
from testbed.topologies.generate.geography import Coordinates, fibre_latency_ms, great_circle_km
from testbed.topologies.generate.matrix import one_way, read_latencies, read_losses, read_rates
from testbed.topologies.generate.names import Names, plain_name
from testbed.topologies.generate.populate import Population, populate, spread
from testbed.topologies.generate.regions import regions
from testbed.topologies.generate.sites import SiteNetwork, connected_parts
from testbed.topologies.generate.stragglers import StragglerKind, Stragglers, pick
from testbed.topologies.load import load_bytes
from testbed.topologies.model import MAX_NODES, LinkProperties, Topology
from testbed.topologies.source import Form
from testbed.topologies.write import write_text
from testbed.units import UNLIMITED

CORE = LinkProperties(latency_ms=10.0, rate_bps=1e9)
NAME = re.compile(r"[a-z][a-z0-9-]{0,17}")


def degrees(network: SiteNetwork) -> list[int]:
    count = [0] * len(network.names)
    for link in network.links:
        count[link.a] += 1
        count[link.b] += 1
    return count


def assert_simple_and_connected(network: SiteNetwork) -> None:
    pairs = [(link.a, link.b) for link in network.links]
    assert all(a < b for a, b in pairs)
    assert len(set(pairs)) == len(pairs)
    assert len(connected_parts(len(network.names), pairs)) == 1


# Shapes


def test_a_star_is_one_switch() -> None:
    network = shapes.star()
    assert (len(network.names), network.links) == (1, ())


@given(st.integers(3, 40))
def test_a_ring_has_as_many_links_as_sites_and_two_at_each(sites: int) -> None:
    network = shapes.ring(sites, CORE)
    assert_simple_and_connected(network)
    assert len(network.links) == sites
    assert set(degrees(network)) == {2}


@pytest.mark.parametrize(("sites", "links"), [(1, 0), (2, 1)])
def test_the_smallest_rings_have_neither_loops_nor_double_links(sites: int, links: int) -> None:
    assert len(shapes.ring(sites, CORE).links) == links


@given(st.integers(1, 60), st.integers(1, 5))
def test_a_tree_has_one_link_less_than_sites_and_bounded_branches(sites: int, branching: int) -> None:
    network = shapes.tree(sites, branching, CORE)
    assert_simple_and_connected(network)
    assert len(network.links) == sites - 1
    children = [0] * sites
    for link in network.links:
        children[link.a] += 1
    assert max(children) <= branching
    assert sum(0 < count < branching for count in children) <= 1  # only the last parent may be incomplete


def test_nodes_of_a_tree_may_stand_at_the_leaves_only() -> None:
    topology = populate(shapes.tree(7, 2, CORE, leaves_only=True), "t", Population(8))
    assert [(service.name, service.replicas) for service in topology.services] == [
        (f"n{leaf}", 2) for leaf in (3, 4, 5, 6)
    ]
    assert len(topology.bridges) == 7


@given(st.integers(1, 25))
def test_a_mesh_links_every_pair(sites: int) -> None:
    network = shapes.mesh(sites, CORE)
    assert len(network.links) == sites * (sites - 1) // 2
    assert set(degrees(network)) == {sites - 1}


@given(st.integers(3, 40), st.integers(2, 12), st.integers(0, 1000))
def test_a_regular_network_has_the_same_degree_everywhere(sites: int, degree: int, seed: int) -> None:
    if degree >= sites or sites * degree % 2:
        with pytest.raises(UsageProblem):
            random_shapes.regular(sites, degree, CORE, seed)
        return
    network = random_shapes.regular(sites, degree, CORE, seed)
    assert_simple_and_connected(network)
    assert set(degrees(network)) == {degree}


def test_a_large_regular_network_of_degree_two_is_one_ring() -> None:
    network = random_shapes.regular(2000, 2, CORE, 1)
    assert_simple_and_connected(network)
    assert set(degrees(network)) == {2}


@pytest.mark.parametrize(("sites", "degree"), [(5, 3), (4, 4), (4, -1), (6, 1), (2, 0)])
def test_impossible_regular_networks_are_refused(sites: int, degree: int) -> None:
    with pytest.raises(UsageProblem):
        random_shapes.regular(sites, degree, CORE, 1)


@pytest.mark.parametrize(("sites", "degree"), [(1, 0), (2, 1)])
def test_the_smallest_regular_networks_exist(sites: int, degree: int) -> None:
    assert degrees(random_shapes.regular(sites, degree, CORE, 1)) == [degree] * sites


@given(st.integers(5, 40), st.sampled_from([2, 4]), st.floats(0, 1), st.integers(0, 1000))
def test_a_small_world_keeps_its_number_of_links(sites: int, degree: int, rewiring: float, seed: int) -> None:
    network = random_shapes.small_world(sites, degree, rewiring if degree == 4 else rewiring / 10, CORE, seed)
    assert_simple_and_connected(network)
    assert len(network.links) == sites * degree // 2


def test_without_rewiring_a_small_world_is_a_ring_of_neighbourhoods() -> None:
    network = random_shapes.small_world(12, 4, 0.0, CORE, 1)
    expected = {tuple(sorted((site, (site + step) % 12))) for site in range(12) for step in (1, 2)}
    assert {(link.a, link.b) for link in network.links} == expected


def test_rewiring_moves_about_as_many_links_as_asked() -> None:
    local = {tuple(sorted((site, (site + step) % 400))) for site in range(400) for step in (1, 2)}
    network = random_shapes.small_world(400, 4, 0.25, CORE, 3)
    moved = sum((link.a, link.b) not in local for link in network.links)
    assert 140 <= moved <= 260  # 200 expected, standard deviation 12


@given(st.integers(2, 60), st.integers(1, 5), st.integers(0, 1000))
def test_barabasi_albert_adds_the_same_number_of_links_with_every_site(sites: int, links: int, seed: int) -> None:
    if links >= sites:
        with pytest.raises(UsageProblem):
            random_shapes.barabasi_albert(sites, links, CORE, seed)
        return
    network = random_shapes.barabasi_albert(sites, links, CORE, seed)
    assert_simple_and_connected(network)
    assert len(network.links) == links * (sites - links)
    newcomers = [sum(link.b == site for link in network.links) for site in range(links + 1, sites)]
    assert set(newcomers) <= {links}


def test_barabasi_albert_has_hubs() -> None:
    count = sorted(degrees(random_shapes.barabasi_albert(500, 2, CORE, 1)))
    assert count[-1] >= 8 * count[len(count) // 2]


@given(st.integers(1, 40), st.floats(0, 1), st.floats(0.01, 2), st.integers(0, 1000))
def test_waxman_is_connected_whatever_the_chances(sites: int, alpha: float, beta: float, seed: int) -> None:
    network = random_shapes.waxman(sites, alpha, beta, 40.0, CORE, seed)
    assert_simple_and_connected(network)
    for link in network.links:
        assert link.forth is not None
        assert 0.1 <= link.forth.latency_ms <= 40 * 1.4143


def test_waxman_prefers_short_links() -> None:
    def mean_ms(beta: float) -> float:
        links = random_shapes.waxman(80, 0.9, beta, 40.0, CORE, 5).links
        return sum(link.forth.latency_ms for link in links if link.forth) / len(links)

    assert mean_ms(0.05) < 0.6 * mean_ms(100.0)


RANDOM = {
    "regular": lambda seed: random_shapes.regular(20, 4, CORE, seed),
    "small-world": lambda seed: random_shapes.small_world(20, 4, 0.3, CORE, seed),
    "barabasi-albert": lambda seed: random_shapes.barabasi_albert(20, 2, CORE, seed),
    "waxman": lambda seed: random_shapes.waxman(20, 0.4, 0.2, 40.0, CORE, seed),
}


@pytest.mark.parametrize("kind", RANDOM)
def test_a_seed_means_one_network(kind: str) -> None:
    assert RANDOM[kind](7) == RANDOM[kind](7)
    assert len({RANDOM[kind](seed).links for seed in range(5)}) == 5


def test_a_seed_means_the_same_network_on_every_machine() -> None:
    network = random_shapes.regular(6, 3, CORE, 1)
    assert [(link.a, link.b) for link in network.links] == [
        (0, 1),
        (0, 3),
        (0, 4),
        (1, 2),
        (1, 3),
        (2, 4),
        (2, 5),
        (3, 5),
        (4, 5),
    ]


# Bounds


def test_what_is_too_large_is_refused_before_it_is_built() -> None:
    with pytest.raises(UsageProblem, match="directed links"):
        shapes.mesh(50_000, CORE)
    with pytest.raises(UsageProblem, match="directed links"):
        random_shapes.regular(100_000, 60, CORE, 1)
    with pytest.raises(UsageProblem, match="sites"):
        shapes.ring(MAX_NODES + 1, CORE)
    with pytest.raises(UsageProblem, match="nodes"):
        populate(shapes.star(), "x", Population(MAX_NODES + 1))
    with pytest.raises(UsageProblem, match="nodes"):
        populate(shapes.star(), "x", Population(0))


# Nodes at sites


@given(st.integers(1, 300), st.integers(1, 60))
def test_nodes_are_spread_evenly(nodes: int, places: int) -> None:
    counts = spread(nodes, places)
    assert sum(counts) == nodes
    assert max(counts) - min(counts) <= 1


def test_the_larger_sites_are_not_all_the_first() -> None:
    assert spread(5, 10) == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]


def test_every_node_has_an_access_link_of_its_own_both_ways() -> None:
    up, down = LinkProperties(2.0, 5e6), LinkProperties(2.0, 50e6, 0.1, 0.01)
    topology = populate(shapes.ring(3, CORE), "r", Population(6, up, down))
    access = [link for link in topology.links if not link.origin.startswith("r-") or not link.dest.startswith("r-")]
    assert [(link.origin, link.dest, link.properties) for link in access[:2]] == [
        ("n0", "r-n0", up),
        ("r-n0", "n0", down),
    ]
    assert len(access) == 6
    assert len(topology.links) == 12


# Stragglers


@given(st.integers(1, 200), st.floats(0.001, 1), st.integers(0, 1000))
def test_as_many_stragglers_as_asked_in_every_part_of_the_rank_order(nodes: int, fraction: float, seed: int) -> None:
    slow = sorted(pick(Stragglers(fraction), nodes, seed))
    assert len(slow) == max(1, round(fraction * nodes))
    assert all(0 <= rank < nodes for rank in slow)
    stretch = nodes / len(slow)
    assert slow[0] < stretch
    assert slow[-1] >= nodes - stretch - 1
    assert all(after - before < 2 * stretch + 1 for before, after in pairwise(slow))


def test_other_seeds_pick_other_stragglers_and_not_always_the_lowest_ranks() -> None:
    picks = [pick(Stragglers(0.1), 100, seed) for seed in range(20)]
    assert len(set(picks)) == 20
    assert pick(Stragglers(0.1), 100, 3) == picks[3]
    assert sum(0 in slow for slow in picks) <= 10


def test_no_stragglers_when_none_are_asked_for() -> None:
    assert pick(Stragglers(0.0), 10, 1) == frozenset()


def slow_star(kind: StragglerKind, rate_bps: float = 100e6) -> Topology:
    access = LinkProperties(1.0, rate_bps)
    return populate(shapes.star(), "s", Population(20, access, access, Stragglers(0.1, 3.0, kind), seed=4))


@pytest.mark.parametrize("kind", StragglerKind)
def test_a_straggler_is_slow_in_the_way_that_was_asked(kind: StragglerKind) -> None:
    topology = slow_star(kind)
    slow = pick(Stragglers(0.1), 20, 4)
    rates = {link.origin: link.properties.rate_bps for link in topology.links if link.dest == "r-node"}
    back = {link.dest: link.properties.rate_bps for link in topology.links if link.origin == "r-node"}
    assert rates == back
    assert len(topology.nodes) == 20
    for node in topology.nodes:
        is_slow = node.rank in slow
        assert ("slow" in node.name) == is_slow
        slow_network = is_slow and kind is not StragglerKind.COMPUTE
        slow_compute = is_slow and kind is not StragglerKind.NETWORK
        assert rates[node.service.name] == (33_333_000 if slow_network else 100_000_000)  # whole kbit/s
        assert node.service.speed == pytest.approx(1 / 3 if slow_compute else 1.0, rel=2e-4)


def test_an_unlimited_link_has_no_slow_form() -> None:
    with pytest.raises(UsageProblem, match="unlimited"):
        slow_star(StragglerKind.NETWORK, rate_bps=UNLIMITED)
    assert len(slow_star(StragglerKind.COMPUTE, rate_bps=UNLIMITED).nodes) == 20


@pytest.mark.parametrize(
    ("fraction", "slowdown"), [(1.1, 5), (-0.1, 5), (0.1, 0.5), (float("nan"), 5), (0.1, float("nan"))]
)
def test_senseless_stragglers_are_refused(fraction: float, slowdown: float) -> None:
    with pytest.raises(UsageProblem):
        Stragglers(fraction, slowdown)


# Names


@given(st.text(max_size=40))
def test_any_text_becomes_a_name_that_every_runtime_takes(text: str) -> None:
    name = Names().take(text, "-slow12")
    assert NAME.fullmatch(name), name
    assert "dashboard" not in plain_name(text)


@given(
    st.lists(
        st.sampled_from(["a", "A", "a ", "abcdefghijklmnopqrstuvw", "abcdefghijklmnopqrstuvwxyz", "São"]), max_size=30
    )
)
def test_no_name_is_given_twice(texts: list[str]) -> None:
    names = Names()
    taken = [names.take(text) for text in texts]
    assert len(set(taken)) == len(taken)
    assert all(NAME.fullmatch(name) for name in taken)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("São Paulo", "sao-paulo"),
        ("n.virginia", "n-virginia"),
        ("3 Rivers", "n3-rivers"),
        ("my_dashboard", "my-site"),
        ("東京", "site"),
    ],
)
def test_names_stay_readable(text: str, name: str) -> None:
    assert plain_name(text) == name


# Everything loads back


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    sites = draw(st.integers(3, 9))
    seed = draw(st.integers(0, 99))
    network = draw(
        st.sampled_from(
            [
                shapes.star(),
                shapes.ring(sites, CORE),
                shapes.tree(sites, 2, CORE, leaves_only=True),
                shapes.mesh(sites, CORE),
                random_shapes.regular(sites, 2, CORE, seed),
                random_shapes.barabasi_albert(sites, 1, CORE, seed),
                random_shapes.waxman(sites, 0.5, 0.5, 30.0, CORE, seed),
            ]
        )
    )
    stragglers = draw(
        st.none() | st.builds(Stragglers, st.floats(0, 1), st.floats(1, 10_000), st.sampled_from(StragglerKind))
    )
    up = LinkProperties(draw(st.sampled_from([0.25, 1.0, 7.5])), draw(st.sampled_from([1.5e6, 20e6])), 0.05, 0.001)
    down = replace(up, rate_bps=100e6)
    return populate(
        network,
        "drawn",
        Population(draw(st.integers(1, 30)), up, down, stragglers, seed=seed, kollaps=draw(st.booleans())),
    )


@given(topologies())
def test_every_generated_topology_loads_back_equal_and_without_findings(topology: Topology) -> None:
    loaded = load_bytes(write_text(topology, Form.YAML).encode(), Form.YAML, "drawn.yaml")
    assert loaded.findings == ()
    assert loaded.topology == topology
    if all(service.speed == 1 for service in topology.services):
        again = load_bytes(write_text(topology, Form.XML).encode(), Form.XML, "drawn.xml")
        assert again.topology == topology


# Regions and their matrices


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_one_triangle_counts_for_both_directions_and_the_diagonal_for_none(tmp_path: Path) -> None:
    matrix = read_latencies(write(tmp_path / "m.csv", ",a,b,c\na,3,10,0.2s\nb,,,30.5\nc\n"))
    assert matrix.values == ((None, 10.0, 200.0), (10.0, None, 30.5), (200.0, 30.5, None))


def test_two_directions_may_differ(tmp_path: Path) -> None:
    latencies = one_way(read_latencies(write(tmp_path / "m.csv", ",a,b\na,,10\nb,30,\n")), round_trip=True)
    (link,) = regions(latencies, CORE).links
    assert link.forth is not None
    assert link.back is not None
    assert (link.forth.latency_ms, link.back.latency_ms) == (5.0, 15.0)


def test_an_empty_cell_is_no_link_and_other_matrices_are_matched_by_name(tmp_path: Path) -> None:
    latencies = one_way(read_latencies(write(tmp_path / "l.csv", ",a,b,c\na,,10,\nb,,,0\nc\n")), round_trip=False)
    rates = read_rates(write(tmp_path / "r.csv", ",c,b,a\nc,,7,1Gbps\nb,,,26\na\n"))
    losses = read_losses(write(tmp_path / "o.csv", ",a,b,c\na,,1%,\nb,,,\nc\n"))
    network = regions(latencies, CORE, rates, losses)
    assert [(link.a, link.b) for link in network.links] == [(0, 1), (1, 2)]
    assert [link.forth for link in network.links] == [LinkProperties(10.0, 26e6, loss=0.01), LinkProperties(0.1, 7e6)]
    with pytest.raises(UsageProblem, match="say nothing of the region `c`"):
        regions(latencies, CORE, read_rates(write(tmp_path / "s.csv", ",a,b\na,,1\nb\n")))


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("", "matrix-empty", 1, 1),
        (",a,b\na,,x\nb,,\n", "bad-value", 2, 3),
        (",a,b\na,,-5\nb,,\n", "bad-value", 2, 3),
        (",a,a\na,,1\na,,\n", "matrix-names", 1, 3),
        (",a,\na,,1\nb,,\n", "matrix-names", 1, 3),
        (",a,b\na,,1\nc,,\n", "matrix-names", 3, 1),
        (",a,b\na,,1\n", "matrix-shape", 2, 1),
        (",a,b\na,,1,4\nb,,\n", "matrix-shape", 2, 4),
        (',a,b\na,,"1\nb,,\n', "csv-syntax", 1, 1),
    ],
)
def test_a_bad_matrix_is_a_finding_with_its_place(tmp_path: Path, text: str, code: str, line: int, column: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_latencies(write(tmp_path / "m.csv", text))
    assert [(finding.code, *finding.where) for finding in caught.value.findings] == [(code, line, column)]


def test_all_bad_cells_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_losses(write(tmp_path / "m.csv", ",a,b,c\na,,2,x\nb,,,0.1%\nc\n"))
    assert [finding.where for finding in caught.value.findings] == [(2, 3), (2, 4)]


def test_binary_rubbish_and_missing_files_are_our_errors(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00,\x00")
    with pytest.raises(InvalidInput):
        read_rates(tmp_path / "b.csv")
    with pytest.raises(UsageProblem):
        read_rates(tmp_path / "none.csv")
    with pytest.raises(UsageProblem):
        read_rates(tmp_path)


# Geography


def test_great_circles_and_fibre() -> None:
    london, new_york = Coordinates(51.5074, -0.1278), Coordinates(40.7128, -74.0060)
    assert great_circle_km(london, new_york) == pytest.approx(5570, abs=5)
    assert great_circle_km(Coordinates(0, 179), Coordinates(0, -179)) == pytest.approx(222.4, abs=0.1)
    assert great_circle_km(Coordinates(0, 0), Coordinates(0, 180)) == pytest.approx(20015, abs=1)
    assert fibre_latency_ms(1000) == 5.0
    assert fibre_latency_ms(1000, 1.8) == 9.0
    assert fibre_latency_ms(0) == 0.1
