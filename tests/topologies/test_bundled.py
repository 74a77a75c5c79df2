"""The bundled topologies: what their recipes write, what they promise, and that real Kollaps could run the XML ones."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from testbed.network.findings import path_findings
from testbed.network.graph import count_directed_links, expand
from testbed.network.paths import compute_paths
from testbed.topologies.bundled import BUNDLED, Bundled, find_bundled
from testbed.topologies.generate.geography import CLOUD_ROUTE_FACTOR, Coordinates, fibre_latency_ms, great_circle_km
from testbed.topologies.generate.matrix import MATRICES, read_latencies, read_losses, read_rates
from testbed.topologies.generate.recipes import RECIPES, make
from testbed.topologies.load import load
from testbed.topologies.model import (
    DEFAULT_NETWORK,
    BridgeEvent,
    LinkEvent,
    NodeAction,
    NodeEvent,
    PartitionEvent,
    Routing,
    Topology,
)

ROOT = Path(__file__).parents[2]
PUBLISHED_STAR = ROOT / ".." / "shared" / "reference" / "xml" / "divshare__example_topology_60n7cs5.xml"

NAMES = [bundled.name for bundled in BUNDLED]
FOR_KOLLAPS = [bundled.name for bundled in BUNDLED if bundled.form == "xml"]

CLOUD = {
    "n-virginia": ("America", Coordinates(38.95, -77.45)),
    "n-california": ("America", Coordinates(37.35, -121.96)),
    "oregon": ("America", Coordinates(45.84, -119.70)),
    "ireland": ("Europe", Coordinates(53.35, -6.26)),
    "frankfurt": ("Europe", Coordinates(50.11, 8.68)),
    "tokyo": ("Asia", Coordinates(35.68, 139.69)),
    "seoul": ("Asia", Coordinates(37.57, 126.98)),
    "singapore": ("Asia", Coordinates(1.35, 103.82)),
    "sydney": ("Australia", Coordinates(-33.87, 151.21)),
    "sao-paulo": ("South America", Coordinates(-23.55, -46.63)),
}
"""Continent and place of the regions in the bundled matrices."""


def bundled(name: str) -> Topology:
    path = find_bundled(name)
    assert path is not None
    return load(path).require()


# The files


@pytest.mark.processes
def test_the_files_are_exactly_what_the_script_writes(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "bundled-topologies"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, capture_output=True)
    folder = BUNDLED[0].path.parent
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_recipe_is_listed_and_the_other_way_round() -> None:
    assert list(RECIPES) == NAMES
    assert len(set(NAMES)) == len(NAMES)
    assert all(each.description and len(each.description) <= 90 and "\n" not in each.description for each in BUNDLED)


@pytest.mark.parametrize("each", BUNDLED, ids=NAMES)
def test_a_file_says_what_its_recipe_says_and_nothing_is_wrong_with_it(each: Bundled) -> None:
    loaded = load(each.path)
    assert loaded.topology == make(each.name)
    assert [finding.code for finding in loaded.findings if finding.severity != "note"] == []
    assert path_findings(make(each.name), expand(make(each.name))) == []


@pytest.mark.parametrize("name", ["wan256", "wan256.xml", "topologies/wan256", "topologies/wan256.xml"])
def test_a_file_is_found_by_any_of_its_names(name: str) -> None:
    path = find_bundled(name)
    assert path is not None
    assert path.name == "wan256.xml"
    assert path.is_file()


@pytest.mark.parametrize(
    "name", ["", "wan", "wan256.yaml", "other/wan256.xml", "topologies", "topologies/../wan256.xml", "/wan256"]
)
def test_nothing_else_is_found(name: str) -> None:
    assert find_bundled(name) is None


@pytest.mark.parametrize(
    ("name", "nodes", "bridges", "links"),
    [
        ("lan4", 4, 1, 8),
        ("lan16", 16, 1, 32),
        ("star60-stragglers", 60, 1, 120),
        ("regions60", 60, 10, 3240 + 120),
        ("wan16", 16, 10, 90 + 32),
        ("wan64", 64, 10, 90 + 128),
        ("wan256", 256, 10, 90 + 512),
        ("wan1024", 1024, 10, 90 + 2048),
        ("mobile32", 32, 5, 8 + 64),
        ("churn16", 16, 2, 2 + 32),
        ("flaky-link8", 8, 2, 2 + 16),
    ],
)
def test_sizes(name: str, nodes: int, bridges: int, links: int) -> None:
    topology = bundled(name)
    assert (len(topology.nodes), len(topology.bridges), count_directed_links(topology)) == (nodes, bridges, links)


# What Kollaps asks of the XML ones


@pytest.mark.parametrize("name", FOR_KOLLAPS)
def test_kollaps_can_run_the_xml_ones(name: str) -> None:
    topology = bundled(name)
    supervisors = [service for service in topology.services if service.supervisor]
    assert [(each.name, each.image, each.port) for each in supervisors] == [
        ("dashboard", "kollaps/dashboard:1.0", 8088)
    ]
    names = [service.name for service in topology.services] + [bridge.name for bridge in topology.bridges]
    assert all(re.fullmatch(r"[a-z][a-z0-9-]{0,17}", each) for each in names)
    assert sum("dashboard" in each or "logger" in each for each in names) == 1
    assert {link.network for link in topology.links} == {DEFAULT_NETWORK}
    directions = {(link.origin, link.dest): link.properties for link in topology.links}
    for (origin, dest), properties in directions.items():
        back = directions[dest, origin]
        assert (back.latency_ms, back.jitter_ms, back.loss) == (
            properties.latency_ms,
            properties.jitter_ms,
            properties.loss,
        )
        assert properties.latency_ms > 0
        assert properties.rate_bps % 1000 == 0
        assert properties.jitter_ms <= properties.latency_ms / 3
        assert 0 <= properties.loss <= 0.01
    assert count_directed_links(topology) <= 65535


@pytest.mark.parametrize("name", FOR_KOLLAPS)
def test_the_xml_begins_with_the_experiment_and_rates_are_whole_numbers_both_ways(name: str) -> None:
    path = find_bundled(name)
    assert path is not None
    text = path.read_text(encoding="utf-8")
    assert text.split("\n")[1] == '<experiment boot="kollaps:2.0">'
    assert "_" not in "".join(re.findall(r'name="([^"]*)"', text))
    links = re.findall(r"<link [^>]*>", text)
    assert links
    assert all(re.search(r'upload="[1-9][0-9]*[KMG]bps" download="[1-9][0-9]*[KMG]bps"', link) for link in links)


@pytest.mark.parametrize("name", NAMES)
def test_every_pair_has_one_shortest_path_of_some_latency(name: str) -> None:
    paths = compute_paths(expand(bundled(name)))
    pairs = ~np.eye(len(paths.sources), dtype=bool)
    assert paths.reachable[pairs].all()
    assert not paths.tied[pairs].any()
    assert (paths.latency_ms[pairs] > 0).all()


# The wide-area ones


@pytest.mark.parametrize(
    ("name", "least", "most"), [("wan16", 1, 2), ("wan64", 6, 7), ("wan256", 25, 26), ("wan1024", 102, 103)]
)
def test_ten_regions_with_nearly_the_same_number_of_nodes(name: str, least: int, most: int) -> None:
    services = [service for service in bundled(name).services if not service.supervisor]
    assert [service.name for service in services] == list(CLOUD)
    assert {service.replicas for service in services} == {least, most}


@pytest.mark.parametrize("name", ["wan16", "wan256"])
def test_latency_between_regions_is_half_the_round_trip_and_two_access_links(name: str) -> None:
    topology = bundled(name)
    rtt = read_latencies(MATRICES / "cloud-rtt.csv")
    assert rtt.names == tuple(CLOUD)
    assert rtt.values[0][1] == 72.7
    assert rtt.values[7][9] == 328.1
    losses = read_losses(MATRICES / "cloud-loss.csv")
    first = {service: topology.select(service)[0] for service in CLOUD}
    paths = compute_paths(expand(topology), list(first.values()))
    for a, origin in enumerate(CLOUD):
        for b, dest in enumerate(CLOUD):
            rtt_ms = rtt.values[a][b]
            if rtt_ms is None:
                continue
            assert paths.latency_ms[a, first[dest]] == pytest.approx(rtt_ms / 2 + 2)
            assert paths.loss[a, first[dest]] == pytest.approx(losses.values[a][b])
            assert paths.bandwidth_bps[a, first[dest]] == 100e6
            assert paths.hops[a, first[dest]] == 3, (origin, dest)


def test_within_a_region_only_the_access_links_count() -> None:
    topology = bundled("wan256")
    ranks = topology.select("tokyo")
    paths = compute_paths(expand(topology), [ranks[0]])
    assert {float(paths.latency_ms[0, rank]) for rank in ranks[1:]} == {2.0}
    assert {float(paths.loss[0, rank]) for rank in ranks[1:]} == {0.0}


def test_links_between_continents_lose_more_the_longer_they_are() -> None:
    rtt, losses = read_latencies(MATRICES / "cloud-rtt.csv"), read_losses(MATRICES / "cloud-loss.csv")
    assert losses.names == rtt.names
    between: list[tuple[float, float]] = []
    for a, origin in enumerate(rtt.names):
        for b, dest in enumerate(rtt.names[:a]):
            rtt_ms, loss = rtt.values[a][b], losses.values[a][b]
            assert rtt_ms is not None
            assert loss is not None
            if CLOUD[origin][0] == CLOUD[dest][0]:
                assert loss == 0
            else:
                between.append((rtt_ms, loss))
    between.sort()
    only_losses = [loss for _rtt_ms, loss in between]
    assert only_losses == sorted(only_losses)
    assert (only_losses[0], only_losses[-1]) == (0.0001, 0.0005)


def test_between_regions_there_is_a_gigabit() -> None:
    core = [link for link in bundled("wan64").links if link.origin.startswith("r-") and link.dest.startswith("r-")]
    assert len(core) == 90
    assert {link.properties.rate_bps for link in core} == {1e9}


def test_the_route_factor_is_the_median_of_what_was_measured_between_cloud_regions() -> None:
    rtt = read_latencies(MATRICES / "cloud-rtt.csv")
    factors = [
        rtt_ms / 2 / fibre_latency_ms(great_circle_km(CLOUD[rtt.names[a]][1], CLOUD[rtt.names[b]][1]))
        for a in range(10)
        for b in range(a)
        if (rtt_ms := rtt.values[a][b]) is not None
    ]
    assert len(factors) == 45
    assert median(factors) == pytest.approx(CLOUD_ROUTE_FACTOR, abs=0.05)
    assert min(factors) > 1


# DivShare's


def test_the_star_is_the_published_one() -> None:
    if not PUBLISHED_STAR.is_file():
        pytest.skip("the published file is not beside this checkout")
    ours, published = bundled("star60-stragglers"), load(PUBLISHED_STAR).require()
    assert [service.name for service in ours.services] == [service.name.lower() for service in published.services]
    assert [service.replicas for service in ours.services] == [service.replicas for service in published.services]
    assert [(link.origin, link.dest, link.properties) for link in ours.links] == [
        (link.origin.lower(), link.dest.lower(), link.properties) for link in published.links
    ]


def test_the_star_has_seven_slow_nodes() -> None:
    rates = {
        link.origin: link.properties.rate_bps / 1e6
        for link in bundled("star60-stragglers").links
        if link.dest == "switch"
    }
    assert rates.pop("fastworker") == 60
    assert list(rates.values()) == [12, 12, 12, 13, 10, 13, 11]


def test_in_the_ten_regions_direct_links_win() -> None:
    topology = bundled("regions60")
    assert topology.routing is Routing.LATENCY
    rates = read_rates(MATRICES / "divshare-rates.csv")
    values = [rate / 1e6 for a in range(10) for rate in rates.values[a][:a] if rate is not None]
    assert (len(values), min(values), median(values), max(values)) == (45, 21, 60, 405)
    assert round(sum(values) / 45) == 75
    paths = compute_paths(expand(topology))
    for a in range(60):
        for b in range(60):
            region_a, region_b = a // 6, b // 6
            if region_a != region_b:
                assert paths.hops[a, b] == 1
                assert paths.bandwidth_bps[a, b] == rates.values[region_a][region_b]
            elif a != b:
                assert (paths.hops[a, b], paths.latency_ms[a, b], paths.bandwidth_bps[a, b]) == (2, 1.0, 1e9)


def test_latencies_between_the_ten_regions_follow_from_distances() -> None:
    links = {(link.origin, link.dest): link.properties.latency_ms for link in bundled("regions60").links}
    stockholm_milan_km, cape_town_tokyo_km = 1650, 14730
    assert links["stockholm", "milan"] == pytest.approx(stockholm_milan_km * 1.8 / 200, rel=0.02)
    assert links["cape-town", "tokyo"] == pytest.approx(cape_town_tokyo_km * 1.8 / 200, rel=0.02)


# The ones with a character


def test_phones_send_more_slowly_than_they_receive_and_jitter_is_bounded() -> None:
    topology = bundled("mobile32")
    links = {(link.origin, link.dest): link.properties for link in topology.links}
    cells = [service for service in topology.services if not service.supervisor]
    assert sum(service.replicas for service in cells) == 32
    for service in cells:
        bridge = f"r-{service.name.split('-')[0]}"
        up, down = links[service.name, bridge], links[bridge, service.name]
        assert up.rate_bps < down.rate_bps
        assert 0 < up.jitter_ms < up.latency_ms / 3
        assert 0.001 <= up.loss <= 0.01


def test_churn_has_every_kind_of_node_trouble() -> None:
    events = bundled("churn16").events
    actions = {event.action for event in events if isinstance(event, NodeEvent)}
    assert actions == {NodeAction.CRASH, NodeAction.PAUSE, NodeAction.LEAVE}
    (churn,) = [event for event in events if isinstance(event, NodeEvent) and event.when.every_s]
    assert (churn.targets, churn.count, len(list(churn.when.times()))) == (("*",), 1, 18)
    assert any(isinstance(event, PartitionEvent) for event in events)


def test_the_flaky_links_events_are_told_as_kollaps_needs_them() -> None:
    topology = bundled("flaky-link8")
    joins = [event for event in topology.events if isinstance(event, NodeEvent)]
    assert [(event.targets, event.action, event.when.at_s) for event in joins] == [
        (("east",), NodeAction.JOIN, 0.0),
        (("west",), NodeAction.JOIN, 0.0),
    ]
    links = [event for event in topology.events if isinstance(event, LinkEvent)]
    assert not any(isinstance(event, BridgeEvent | PartitionEvent) for event in topology.events)
    times = [event.when.at_s for event in links]
    assert times == sorted(times)
    different = sorted(set(times))
    assert all(after - before >= 0.5 for before, after in pairwise(different))
    assert {event.up for event in links} == {None, True, False}
    assert {event.change.loss for event in links} == {None, 0.0, 0.02}
    assert {event.change.latency_ms for event in links} == {None, 20.0, 120.0}


def test_the_flaky_link_ends_as_it_began() -> None:
    topology = bundled("flaky-link8")
    (link,) = [link for link in topology.links if (link.origin, link.dest) == ("r-east", "r-west")]
    state = {"latency_ms": link.properties.latency_ms, "loss": link.properties.loss, "up": True}
    start = dict(state)
    for event in topology.events:
        if isinstance(event, LinkEvent) and event.origin == "r-east":
            changed = {"latency_ms": event.change.latency_ms, "loss": event.change.loss, "up": event.up}
            state |= {key: value for key, value in changed.items() if value is not None}
    assert state == start
