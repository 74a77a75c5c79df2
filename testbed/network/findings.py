"""Warnings about a network: pairs without a path, ambiguous routes, nodes that forward for others, large jitter.

Takes a `Topology` and its `Network`, gives warnings; touches nothing. The work is bounded for any size: where following
every path would take too long, a sample of sources is followed, and the message says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from testbed.errors import Finding, warning
from testbed.network.graph import Network
from testbed.network.paths import Paths, compute_paths
from testbed.network.routing import Router, simplify
from testbed.network.timeline import events_without_effect
from testbed.seeds import stream
from testbed.topologies.model import Link, NodeEvent, Routing, Service, Topology
from testbed.units import format_duration, format_latency

_MOST_STEPS = 6_000_000
"""Bound of links and vertices visited over all followed sources: well below a second."""
_MOST_BITS = 2_000_000_000
"""Bound of the size of all sets of reachable nodes."""
_MOST_OF_A_KIND = 20
_LONGEST_ROUTE = 10

_OUR_CHOICE = {
    Routing.HOPS: "the lower latency, then the previous hop whose name sorts first",
    Routing.LATENCY: "the fewer hops, then the previous hop whose name sorts first",
}
_HOW_TO_DECIDE = {
    Routing.HOPS: "to decide it yourself, give one route fewer hops or route by latency",
    Routing.LATENCY: "to decide it yourself, make their latencies differ",
}


def path_findings(topology: Topology, network: Network) -> list[Finding]:
    """Warnings about the paths of a topology at the start."""
    findings = [*_jitter(topology), *_without_effect(topology)]
    count = network.node_count
    if count < 2:
        return findings
    if not network.up.any():
        return [*findings, _no_path(count * (count - 1), count * (count - 1), "", network.names[:2])]
    sources = sample_sources(network, _MOST_STEPS // max(1, network.link_count + len(network.names)))
    paths = compute_paths(network, sources)
    findings.extend(_unreachable(network, paths))
    findings.extend(_ties(topology, paths))
    findings.extend(_transit(topology, paths))
    return findings


def sample_sources(network: Network, most: int) -> list[int]:
    """All ranks, or a sample of `most` of them (at least one), always the same."""
    ranks = range(network.node_count)
    if most >= len(ranks):
        return list(ranks)
    return sorted(stream(0, "sample of sources").sample(ranks, max(1, most)))


def _sampled(paths: Paths) -> str:
    count = paths.network.node_count
    return "" if paths.sources.size == count else f" (in a sample of {paths.sources.size} of {count} sources)"


def _jitter(topology: Topology) -> Iterator[Finding]:
    wild: dict[tuple[object, ...], Link] = {}
    for link in topology.links:
        properties = link.properties
        # Decimal fractions such as 0.1 and 0.3 are not exact.
        if properties.jitter_ms * 3 > properties.latency_ms * (1 + 1e-9):
            ends = frozenset((link.origin, link.dest))
            wild.setdefault((link.where, ends, properties.jitter_ms, properties.latency_ms), link)
    for link in list(wild.values())[:_MOST_OF_A_KIND]:
        jitter, latency = format_latency(link.properties.jitter_ms), format_latency(link.properties.latency_ms)
        yield warning(
            "jitter",
            f"link from `{link.origin}` to `{link.dest}`: a jitter of {jitter} is more than a third of the latency, "
            f"{latency}",
            "packets of a flow stay in order, so that delays as varied as that cannot be had: "
            "lower the jitter or raise the latency",
            link.where,
        )
    if len(wild) > _MOST_OF_A_KIND:
        yield warning("jitter", f"{len(wild) - _MOST_OF_A_KIND} more links have a jitter beyond a third of the latency")


def _without_effect(topology: Topology) -> Iterator[Finding]:
    idle = events_without_effect(topology)
    for event in idle[:_MOST_OF_A_KIND]:
        what = "the nodes are" if isinstance(event, NodeEvent) else "it is"
        message = f"this event finds nothing to do (at {format_duration(event.when.at_s)} or later): {what} already so"
        yield warning("no-effect", message, "check the times and targets of the events around it", event.where)
    if len(idle) > _MOST_OF_A_KIND:
        yield warning("no-effect", f"{len(idle) - _MOST_OF_A_KIND} more events find nothing to do")


def _unreachable(network: Network, paths: Paths) -> Iterator[Finding]:
    count = network.node_count
    every = count * (count - 1)
    sets = _reachable_sets(network)
    if sets is None:
        missing = paths.hops < 0
        pairs, example = int(missing.sum()), np.argwhere(missing)
        every, sampled = paths.sources.size * (count - 1), _sampled(paths)
        source, dest = (int(paths.sources[example[0][0]]), int(example[0][1])) if pairs else (0, 0)
    else:
        pairs, sampled = sum(count - reached.bit_count() for reached in sets), ""
        source = next((rank for rank, reached in enumerate(sets) if reached.bit_count() < count), 0)
        absent = ~sets[source]
        dest = (absent & -absent).bit_length() - 1
    if pairs:
        yield _no_path(pairs, every, sampled, (network.names[source], network.names[dest]))


def _no_path(pairs: int, every: int, sampled: str, example: Sequence[str]) -> Finding:
    return warning(
        "unreachable",
        f"{pairs} of {every} ordered pairs of nodes have no path{sampled}, "
        f"such as from `{example[0]}` to `{example[1]}`",
        "add the missing links; a link without a way back is one-way",
    )


def _reachable_sets(network: Network) -> list[int] | None:
    """For every node, the set of nodes that it reaches (itself included) as bits; None where it would be too large."""
    vertices, count = len(network.names), network.node_count
    origin, dest = network.origin[network.up], network.dest[network.up]
    matrix = csr_array((np.ones(origin.size), (origin, dest)), shape=(vertices, vertices))
    parts, part_of = connected_components(matrix, directed=True, connection="strong")
    crossing = part_of[origin] != part_of[dest]
    steps = np.unique(part_of[origin][crossing] * np.int64(parts) + part_of[dest][crossing])
    if (parts + steps.size) * count > _MOST_BITS:
        return None

    onward: dict[int, list[int]] = {part: [] for part in range(parts)}
    for step in steps.tolist():
        onward[step // parts].append(step % parts)
    node_parts = part_of[:count]
    sizes = np.bincount(node_parts, minlength=parts)
    reached = [0] * parts
    for rank in np.flatnonzero(sizes[node_parts] == 1).tolist():
        reached[node_parts[rank]] = 1 << rank
    for part in np.flatnonzero(sizes > 1).tolist():
        reached[part] = _bits(node_parts == part)
    # Every component after all those that it leads to.
    for part in TopologicalSorter(onward).static_order():
        for following in onward[part]:
            reached[part] |= reached[following]
    return [reached[part] for part in node_parts.tolist()]


def _bits(flags: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _ties(topology: Topology, paths: Paths) -> Iterator[Finding]:
    pairs = int(paths.tied.sum())
    if not pairs:
        return
    rows, dests = np.nonzero(paths.tied)
    nearest = np.argmin(paths.hops[rows, dests])
    source, dest = int(paths.sources[rows[nearest]]), int(dests[nearest])
    route = paths.links(source, dest)
    routes, where = f"one of them `{_shown(paths.network, route)}`", None
    if other := _other_route(paths, source, dest):
        different = other.different
        where = topology.links[int(paths.network.declared[different])].where
        if _shown(paths.network, route) == _shown(paths.network, other.links):
            origin, end = (paths.network.names[each[different]] for each in (paths.network.origin, paths.network.dest))
            routes = f"`{_shown(paths.network, route)}` over either of the links from `{origin}` to `{end}`"
        else:
            routes = f"`{_shown(paths.network, route)}` and `{_shown(paths.network, other.links)}`"
    every = paths.sources.size * (paths.network.node_count - 1)
    yield warning(
        "ties",
        f"{pairs} of {every} ordered pairs of nodes have several equally short routes{_sampled(paths)}, "
        f"such as {routes}",
        f"here the choice is always the same: {_OUR_CHOICE[topology.routing]}; Kollaps chooses at random, and anew in "
        f"every process; {_HOW_TO_DECIDE[topology.routing]}",
        where,
    )


def _shown(network: Network, route: list[int]) -> str:
    names = [network.names[network.origin[route[0]]], *(network.names[network.dest[link]] for link in route)]
    if len(names) > _LONGEST_ROUTE:
        left_out = len(names) - _LONGEST_ROUTE
        names[_LONGEST_ROUTE // 2 : -_LONGEST_ROUTE // 2] = [f"… {left_out} more …"]
    return " → ".join(names)


@dataclass(frozen=True, slots=True)
class _OtherRoute:
    """A route as short as the chosen one, and its first link that differs."""

    links: list[int]
    different: int


def _other_route(paths: Paths, source: int, dest: int) -> _OtherRoute | None:
    """The best route that avoids one of the links where routes join; None if none is as short."""
    network = paths.network
    route = paths.links(source, dest)
    forks = Router(simplify(network)).trees(np.array([source], dtype=np.int32)).forks[0]
    measure = "hops" if network.routing is Routing.HOPS else "latency_ms"
    shortest = float(getattr(paths, measure)[np.flatnonzero(paths.sources == source)[0], dest])
    for link in reversed(route):
        if forks[network.dest[link]]:
            up = network.up.copy()
            up[link] = False
            without = compute_paths(replace(network, up=up), [source])
            if math.isclose(float(getattr(without, measure)[0, dest]), shortest, abs_tol=1e-6):
                links = without.links(source, dest)
                return _OtherRoute(links, next(each for each in links if each not in route))
    return None


def _transit(topology: Topology, paths: Paths) -> Iterator[Finding]:
    busiest: dict[str, tuple[Service, str, int]] = {}
    for rank in np.flatnonzero(paths.carried).tolist():
        node, carried = topology.nodes[rank], int(paths.carried[rank])
        if carried > busiest.get(node.service.name, (node.service, "", 0))[2]:
            busiest[node.service.name] = node.service, node.name, carried
    every = int(paths.reachable.sum())
    for service, node_name, carried in list(busiest.values())[:_MOST_OF_A_KIND]:
        yield warning(
            "transit",
            f"{carried} of {every} paths between other nodes go through `{node_name}`{_sampled(paths)}: "
            f"service `{service.name}` carries their traffic",
            "put a bridge in its place if it is not meant to forward",
            service.where,
        )
    if len(busiest) > _MOST_OF_A_KIND:
        more = len(busiest) - _MOST_OF_A_KIND
        yield warning("transit", f"{more} more services carry paths between other nodes{_sampled(paths)}")
