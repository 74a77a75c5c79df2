"""The two networks of the DivShare experiments (60 nodes each).

Takes the bundled matrices, gives a `Topology`, touches only those files.

The synthetic one is a star whose slow nodes come last, in the order of the published file. The real one gives every
pair of nodes in different regions a link of its own at the published rate. The published file has 1 ms for every link
and no path between nodes of the same region; here latencies follow from great-circle distances, and the nodes of a
region share a small LAN.
"""

from __future__ import annotations

import csv
from itertools import combinations

from testbed.topologies.generate.geography import CLOUD_ROUTE_FACTOR, Coordinates, fibre_latency_ms, great_circle_km
from testbed.topologies.generate.matrix import MATRICES, arranged, read_rates
from testbed.topologies.generate.populate import supervisor, two_way
from testbed.topologies.model import Bridge, Link, LinkProperties, Routing, Service, Topology

_FAST_NODES = 53
_FAST_MBPS = 60
_SLOW_MBPS = (12, 12, 12, 13, 10, 13, 11)

_NODES_PER_REGION = 6
_LAN = LinkProperties(latency_ms=0.5, rate_bps=1e9)


def star_with_stragglers(name: str) -> Topology:
    """53 nodes at 60 Mbps and 7 at about a fifth of that, around one switch 1 ms away."""
    services = [supervisor(), Service("fastworker", replicas=_FAST_NODES)]
    rates = [_FAST_MBPS]
    for number, mbps in enumerate(_SLOW_MBPS):
        services.append(Service(f"slowworker{number}"))
        rates.append(mbps)
    links: list[Link] = []
    for service, mbps in zip(services[1:], rates, strict=True):
        access = LinkProperties(latency_ms=1.0, rate_bps=mbps * 1e6)
        links += two_way(service.name, "switch", access, access)
    return Topology(name, tuple(services), tuple(links), (Bridge("switch"),))


def ten_regions(name: str) -> Topology:
    """Six nodes in each of ten regions; by latency, the direct link is the only shortest path of every pair."""
    places = _places()
    regions = tuple(places)
    rates = arranged(read_rates(MATRICES / "divshare-rates.csv"), regions, "rates")
    services = (supervisor(), *(Service(region, replicas=_NODES_PER_REGION) for region in regions))
    bridges = tuple(Bridge(f"lan-{region}") for region in regions)
    links: list[Link] = []
    for region, bridge in zip(regions, bridges, strict=True):
        links += two_way(region, bridge.name, _LAN, _LAN)
    for a, b in combinations(range(len(regions)), 2):
        rate_bps = rates.values[a][b]
        if rate_bps is None:
            continue
        distance_km = great_circle_km(places[regions[a]], places[regions[b]])
        direct = LinkProperties(fibre_latency_ms(distance_km, CLOUD_ROUTE_FACTOR), rate_bps)
        links += two_way(regions[a], regions[b], direct, direct)
    return Topology(name, services, tuple(links), bridges, routing=Routing.LATENCY)


def _places() -> dict[str, Coordinates]:
    with (MATRICES / "divshare-places.csv").open(encoding="utf-8", newline="") as file:
        return {
            row["region"]: Coordinates(float(row["latitude"]), float(row["longitude"])) for row in csv.DictReader(file)
        }
