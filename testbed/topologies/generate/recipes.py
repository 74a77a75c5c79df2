"""Recipes that generate the bundled topologies.

Takes nothing, gives topologies, touches only the bundled matrices. `scripts/bundled-topologies` writes them into
files; `testbed.topologies.bundled` says what each is for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from testbed.topologies.generate.divshare import star_with_stragglers, ten_regions
from testbed.topologies.generate.matrix import MATRICES, one_way, read_latencies, read_losses
from testbed.topologies.generate.populate import Population, populate, supervisor, two_way
from testbed.topologies.generate.regions import regions
from testbed.topologies.generate.shapes import star
from testbed.topologies.model import (
    Bridge,
    Event,
    Link,
    LinkChange,
    LinkEvent,
    LinkProperties,
    NodeAction,
    NodeEvent,
    PartitionEvent,
    Service,
    Topology,
    When,
)

CLOUD_RTT = MATRICES / "cloud-rtt.csv"
"""Round-trip times between ten cloud regions: published averages."""

CLOUD_LOSS = MATRICES / "cloud-loss.csv"
"""Assumed: none within a continent, otherwise from 0.01 % at the shortest round trip to 0.05 % at the longest."""

BETWEEN_REGIONS = LinkProperties(latency_ms=0.0, rate_bps=1e9)
"""Defaults of links between regions."""


def _lan(nodes: int) -> Callable[[str], Topology]:
    access = LinkProperties(latency_ms=0.5, rate_bps=1e9)
    return lambda name: populate(star(), name, Population(nodes, access, access, kollaps=True))


def _wan(nodes: int) -> Callable[[str], Topology]:
    def make(name: str) -> Topology:
        latencies = one_way(read_latencies(CLOUD_RTT), round_trip=True)
        network = regions(latencies, BETWEEN_REGIONS, losses=read_losses(CLOUD_LOSS))
        return populate(network, name, Population(nodes, kollaps=True))

    return make


def _mobile(name: str) -> Topology:
    """Four cells of eight phones each: three near the mast, three further off, two at the cell's edge.

    Typical of LTE: less up than down, tens of milliseconds, and all of it worse with distance. The jitter stays below
    a third of the latency, so that it delays packets but hardly ever reorders them.
    """
    signals = {
        "near": (3, LinkProperties(18.0, 15e6, 3.0, 0.001), LinkProperties(18.0, 45e6, 3.0, 0.001)),
        "mid": (3, LinkProperties(25.0, 8e6, 6.0, 0.003), LinkProperties(25.0, 20e6, 6.0, 0.003)),
        "edge": (2, LinkProperties(40.0, 2e6, 12.0, 0.01), LinkProperties(40.0, 6e6, 12.0, 0.01)),
    }
    backhaul = LinkProperties(latency_ms=5.0, rate_bps=1e9)
    cells = [f"cell{number}" for number in range(4)]
    services = [supervisor()]
    links: list[Link] = []
    for cell in cells:
        for signal, (phones, up, down) in signals.items():
            service = Service(f"{cell}-{signal}", replicas=phones)
            services.append(service)
            links += two_way(service.name, f"r-{cell}", up, down)
    for cell in cells:
        links += two_way(f"r-{cell}", "core", backhaul, backhaul)
    bridges = (*(Bridge(f"r-{cell}") for cell in cells), Bridge("core"))
    return Topology(name, tuple(services), tuple(links), bridges)


def _two_sites(
    nodes_each: int, between: LinkProperties, *, kollaps: bool
) -> tuple[tuple[Service, ...], tuple[Link, ...]]:
    access = LinkProperties(latency_ms=1.0, rate_bps=100e6)
    services = tuple(Service(name, replicas=nodes_each) for name in ("east", "west"))
    links = [link for service in services for link in two_way(service.name, f"r-{service.name}", access, access)]
    links += two_way("r-east", "r-west", between, between)
    return ((supervisor(), *services) if kollaps else services), tuple(links)


def _churn(name: str) -> Topology:
    """Nodes crash and rejoin, some pause, and for ten seconds the two sites are partitioned."""
    services, links = _two_sites(8, LinkProperties(latency_ms=20.0, rate_bps=1e9), kollaps=False)
    events: tuple[Event, ...] = (
        NodeEvent(When(10.0, every_s=5.0, until_s=100.0), NodeAction.CRASH, ("*",), count=1, for_s=8.0),
        NodeEvent(When(32.0), NodeAction.PAUSE, ("west",), count=2, for_s=6.0),
        PartitionEvent(When(60.0), (("east",), ("west",)), for_s=10.0),
        NodeEvent(When(90.0), NodeAction.LEAVE, ("east.7",)),
    )
    return Topology(name, services, links, (Bridge("r-east"), Bridge("r-west")), events)


def _flaky_link(name: str) -> Topology:
    """The only link between two sites loses packets, becomes slow, and breaks for ten seconds, twice over.

    Written so that Kollaps understands it: a change names the rates, which Kollaps takes for both directions, and the
    directions go down or up half a second apart, because Kollaps executes one event each half second.
    """
    good = LinkProperties(latency_ms=20.0, rate_bps=100e6)
    services, links = _two_sites(4, good, kollaps=True)
    events: list[Event] = [
        NodeEvent(When(0.0), NodeAction.JOIN, (service.name,)) for service in services if not service.supervisor
    ]
    directions = (("r-east", "r-west"), ("r-west", "r-east"))

    def change(at_s: float, loss: float | None = None, latency_ms: float | None = None) -> None:
        what = LinkChange(latency_ms, good.rate_bps, loss=loss)
        events.extend(LinkEvent(When(at_s), origin, dest, what) for origin, dest in directions)

    def switch(at_s: float, up: bool) -> None:
        for delay_s, (origin, dest) in zip((0.0, 0.5), directions, strict=True):
            events.append(LinkEvent(When(at_s + delay_s), origin, dest, up=up))

    for start_s in (0.0, 60.0):
        change(start_s + 15, loss=0.02)
        change(start_s + 25, loss=good.loss)
        change(start_s + 30, latency_ms=120.0)
        change(start_s + 40, latency_ms=good.latency_ms)
        switch(start_s + 45, up=False)
        switch(start_s + 55, up=True)
    return Topology(name, services, links, (Bridge("r-east"), Bridge("r-west")), tuple(events))


RECIPES: Mapping[str, Callable[[str], Topology]] = {
    "lan4": _lan(4),
    "lan16": _lan(16),
    "star60-stragglers": star_with_stragglers,
    "regions60": ten_regions,
    "wan16": _wan(16),
    "wan64": _wan(64),
    "wan256": _wan(256),
    "wan1024": _wan(1024),
    "mobile32": _mobile,
    "churn16": _churn,
    "flaky-link8": _flaky_link,
}
"""By file name, which is also the topology's name."""


def make(name: str) -> Topology:
    """Generates the bundled topology of that name."""
    return RECIPES[name](name)
