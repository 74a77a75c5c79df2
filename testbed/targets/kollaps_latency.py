"""Finds paths of latency 0, on which Kollaps exits: those at the start, and those that events can make.

Takes a `Topology` and its `Network`, gives findings; touches nothing. Where following every path would take too long,
a sample of sources is followed. For events no paths are followed: a link that has latency 0 at any time counts as if
it had it all the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from testbed.errors import Finding, Where, error, warning
from testbed.network.graph import Flags, Ints, Network
from testbed.network.paths import compute_paths
from testbed.topologies.model import BridgeEvent, LinkEvent, Topology
from testbed.units import shown

_HINT = "give one of its links a latency, if only 0.001ms"


def zero_latency(topology: Topology, network: Network, most_sources: int) -> Iterator[Finding]:
    """All findings about latency 0, except the legs of shared links, which are an error of their own."""
    findings = [*_at_the_start(topology, network, most_sources), *_made_by_events(topology, network)]
    yield from findings or _by_detours(topology, network)


def _without_latency(network: Network) -> Flags:
    free: Flags = (network.latency_ms == 0) & ~network.access_leg
    return free


def _between_nodes(network: Network) -> Flags:
    return (network.origin < network.node_count) & (network.dest < network.node_count)


class _Parts(NamedTuple):
    """Connected components."""

    of: Ints
    """Number of the component, by vertex."""
    nodes: Ints
    """How many nodes the component has, by vertex."""


def _parts(network: Network, links: Flags) -> _Parts:
    vertices, count = len(network.names), network.node_count
    ends = network.origin[links], network.dest[links]
    matrix = csr_array((np.ones(ends[0].size), ends), shape=(vertices, vertices))
    number, of = connected_components(matrix, directed=True, connection="weak")
    return _Parts(of, np.bincount(of[:count], minlength=number)[of].astype(np.int32))


def _at_the_start(topology: Topology, network: Network, most_sources: int) -> Iterator[Finding]:
    free = network.up & _without_latency(network)
    near = np.flatnonzero(_parts(network, free).nodes[: network.node_count] > 1)
    if not near.size:
        return
    # A link between nodes is certainly such a path.
    certain = np.isin(near, network.origin[free & _between_nodes(network)])
    paths = compute_paths(network, near[np.argsort(~certain, kind="stable")][:most_sources].tolist())
    zero = paths.reachable & (paths.latency_ms == 0)
    pairs = np.argwhere(zero)
    if len(pairs):
        source, dest = int(paths.sources[pairs[0][0]]), int(pairs[0][1])
        many = f"{len(pairs)} pairs of nodes have" if len(pairs) > 1 else "a pair of nodes has"
        sampled = "" if paths.sources.size == near.size else " (and more were not looked at)"
        yield error(
            "kollaps-zero-latency",
            f"{many} a path of latency 0{sampled}, such as from `{network.names[source]}` to `{network.names[dest]}`: "
            "Kollaps' emulation cores then exit",
            _HINT,
            topology.links[int(network.declared[paths.links(source, dest)[0]])].where,
        )


def _made_by_events(topology: Topology, network: Network) -> Iterator[Finding]:
    """A link between nodes is such a path by itself; other links only form one together."""
    makers = list(_makers(topology).items())
    if not makers:
        return
    number = {ends: place for place, (ends, _places) in enumerate(makers)}
    made_by = np.array([number.get((link.origin, link.dest), -1) for link in topology.links])[network.declared]
    made = (made_by >= 0) & ~network.access_leg
    parts = _parts(network, made | _without_latency(network))
    doubtful = made & (parts.nodes[network.origin] > 1)
    certain = set(made_by[doubtful & _between_nodes(network)].tolist())
    told: set[Where] = set()
    numbers, examples = np.unique(made_by[doubtful], return_index=True)
    for place, link in zip(numbers.tolist(), np.flatnonzero(doubtful)[examples].tolist(), strict=True):
        ends, places = makers[place]
        one, other = _two_nodes(network, parts, int(network.origin[link]))
        for where in places:
            if where is not None and where in told:
                continue  # the other direction of the same event
            told.update([where] if where else [])
            gets = f"the link from {shown(ends[0])} to {shown(ends[1])} gets latency 0"
            if place in certain:
                message = f"{gets}, and is a path between nodes: Kollaps' emulation cores then exit"
                yield error("kollaps-zero-latency", message, "give it a latency, if only 0.001ms", where)
            else:
                yield warning(
                    "kollaps-zero-latency",
                    f"{gets}: with others that have or get it, a path between `{one}` and `{other}` may have none, "
                    "and Kollaps' emulation cores then exit",
                    _HINT,
                    where,
                )


def _makers(topology: Topology) -> dict[tuple[str, str], list[Where | None]]:
    """Events that give a link latency 0, by changing or creating it; by the two ends of the link."""
    makers: dict[tuple[str, str], list[Where | None]] = defaultdict(list)
    for link in topology.links:
        if link.starts_down and link.properties.latency_ms == 0:
            makers[link.origin, link.dest].append(link.where)
    for event in topology.events:
        if isinstance(event, LinkEvent) and event.change.latency_ms == 0:
            makers[event.origin, event.dest].append(event.where)
    return makers


def _two_nodes(network: Network, parts: _Parts, vertex: int) -> tuple[str, str]:
    """Two nodes in the component of a vertex."""
    first, second = np.flatnonzero(parts.of[: network.node_count] == parts.of[vertex])[:2].tolist()
    return network.names[first], network.names[second]


def _by_detours(topology: Topology, network: Network) -> Iterator[Finding]:
    """Longer routes of latency 0, which are used once something else is down."""
    parts = _parts(network, _without_latency(network))
    near = np.flatnonzero(parts.nodes[: network.node_count] > 1)
    switches = (event for event in topology.events if isinstance(event, LinkEvent | BridgeEvent))
    down = next((event for event in switches if event.up is False), None)
    if near.size and down is not None:
        one, other = _two_nodes(network, parts, int(near[0]))
        yield warning(
            "kollaps-zero-latency",
            f"there is a longer route of latency 0 between `{one}` and `{other}`: if it is taken when something is "
            "down, Kollaps' emulation cores exit",
            _HINT,
            down.where,
        )
