"""Puts nodes at the sites of a network, each behind an access link of its own.

Takes a `SiteNetwork` and a `Population`, gives a `Topology`, touches nothing.

The site `tokyo` is the bridge `r-tokyo`; its nodes are the service `tokyo` as long as they are equal. A straggler is a
service of its own, in its place of the rank order: then the site is several services, such as `tokyo-0`,
`tokyo-slow3` and `tokyo-4`, each numbered by the place of its first node within the site.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from testbed.errors import UsageProblem
from testbed.topologies.generate.names import SUPERVISOR_IMAGE, SUPERVISOR_NAME, SUPERVISOR_PORT, Names
from testbed.topologies.generate.sites import SiteNetwork, check_links
from testbed.topologies.generate.stragglers import Stragglers, pick, slowed
from testbed.topologies.model import DEFAULT_IMAGE, MAX_NODES, Bridge, Link, LinkProperties, Routing, Service, Topology

DEFAULT_ACCESS = LinkProperties(latency_ms=1.0, rate_bps=100e6)


@dataclass(frozen=True, slots=True)
class Population:
    """The nodes of a network, spread evenly over its sites. `up` is the direction from a node to its site."""

    nodes: int
    up: LinkProperties = DEFAULT_ACCESS
    down: LinkProperties = DEFAULT_ACCESS
    stragglers: Stragglers | None = None
    image: str = DEFAULT_IMAGE
    seed: int = 1
    kollaps: bool = False
    """Whether to add the dashboard that Kollaps needs to start."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Equal nodes of one site."""

    suffix: str
    replicas: int
    slow: bool


def supervisor() -> Service:
    """Kollaps' dashboard: not a node."""
    return Service(SUPERVISOR_NAME, SUPERVISOR_IMAGE, supervisor=True, port=SUPERVISOR_PORT)


def two_way(origin: str, dest: str, forth: LinkProperties, back: LinkProperties) -> tuple[Link, Link]:
    return Link(origin, dest, forth), Link(dest, origin, back)


def spread(nodes: int, places: int) -> list[int]:
    """Number of nodes at each place: they differ by at most one, and the larger ones are spread evenly as well."""
    return [(place + 1) * nodes // places - place * nodes // places for place in range(places)]


def populate(network: SiteNetwork, name: str, population: Population, routing: Routing = Routing.HOPS) -> Topology:
    """The whole topology; its ranks follow the order of the sites."""
    _check(network, population)
    slow = population.stragglers
    slow_ranks = pick(slow, population.nodes, population.seed) if slow else frozenset()
    slow_speed = slow.speed if slow else 1.0
    slow_up, slow_down = _slow_access(population) if slow_ranks else (population.up, population.down)

    names = Names()
    bridges = tuple(Bridge(names.take(site, prefix="r-")) for site in network.names)
    services = [supervisor()] if population.kollaps else []
    access: list[Link] = []
    first_rank = 0
    inhabited = network.inhabited
    for site, count in zip(inhabited, spread(population.nodes, len(inhabited)), strict=True):
        for group in _groups(first_rank, count, slow_ranks):
            service = names.take(network.names[site], group.suffix)
            speed = slow_speed if group.slow else 1.0
            services.append(Service(service, population.image, replicas=group.replicas, speed=speed))
            up, down = (slow_up, slow_down) if group.slow else (population.up, population.down)
            access += two_way(service, bridges[site].name, up, down)
        first_rank += count
    return Topology(name, tuple(services), (*access, *_core(network, bridges)), bridges, routing=routing)


def _check(network: SiteNetwork, population: Population) -> None:
    if not 1 <= population.nodes <= MAX_NODES:
        raise UsageProblem(f"{population.nodes} nodes are asked for", f"a topology has between 1 and {MAX_NODES} nodes")
    check_links(2 * len(network.links) + 2 * population.nodes)


def _slow_access(population: Population) -> tuple[LinkProperties, LinkProperties]:
    slow = population.stragglers
    if slow is None or not slow.slow_network:
        return population.up, population.down
    up, down = population.up, population.down
    return (
        replace(up, rate_bps=slowed(up.rate_bps, slow.slowdown)),
        replace(down, rate_bps=slowed(down.rate_bps, slow.slowdown)),
    )


def _groups(first_rank: int, count: int, slow_ranks: frozenset[int]) -> Iterator[_Group]:
    """A site's nodes in rank order, cut at its stragglers."""
    slow_places = [place for place in range(count) if first_rank + place in slow_ranks]
    if not slow_places:
        if count:
            yield _Group("", count, slow=False)
        return
    if count == 1:
        yield _Group("-slow", 1, slow=True)
        return
    start = 0
    for place in [*slow_places, count]:
        if place > start:
            yield _Group(f"-{start}", place - start, slow=False)
        if place < count:
            yield _Group(f"-slow{place}", 1, slow=True)
        start = place + 1


def _core(network: SiteNetwork, bridges: tuple[Bridge, ...]) -> Iterator[Link]:
    for link in network.links:
        a, b = bridges[link.a].name, bridges[link.b].name
        if link.forth is not None:
            yield Link(a, b, link.forth)
        if link.back is not None:
            yield Link(b, a, link.back)
