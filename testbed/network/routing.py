"""Routing: the shortest routes from a vertex to every other.

Takes a `Network`'s links, gives distances and the last link into every vertex; touches nothing.

A route is short by its first measure (hops, or latency), then by its second (latency, or hops), then by name: of
several equally short routes to a vertex, the one whose last hop comes from the vertex whose name sorts first. Among
parallel links the one with the lower latency is taken, then the higher rate, then the first in the document. The
choice never depends on the order in which a file declares differently named things.

Both measures are one whole number, `major * 2^shift + minor`, held exactly in a float64 (below 2^53), so that
compiled Dijkstra can sum and compare them without rounding. Latencies are compared in nanoseconds, or in a coarser
power of two of them where that would not fit (paths of hours over thousands of hops).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from testbed.network.graph import Flags, Ints, Network
from testbed.topologies.model import Routing

_EXACT_BITS = 52
_NS_PER_MS = 1e6
_CHUNK_ELEMENTS = 1 << 19
_UNREACHED = -(2**60)
"""A distance that no sum of weights turns into a real one."""
_NO_LINK = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False, slots=True)
class SimpleGraph:
    """At most one link between two vertices per direction, sorted by destination, then by the origin's name."""

    vertex_count: int
    routing: Routing
    origin: Ints
    dest: Ints
    link: Ints
    """Indices into the network's links."""
    latency_ns: NDArray[np.float64]
    alternatives: Ints
    """Number of parallel links that are as short by the first measure; 0 inside a group (see `groups`)."""
    groups: Ints
    """Label of every vertex; with latency first, vertices joined both ways by zero-latency links are one group."""

    def restricted(self, vertices: Ints, position: Ints) -> SimpleGraph:
        """The links among some vertices, renumbered by `position`; other vertices have position -1."""
        kept = (position[self.origin] >= 0) & (position[self.dest] >= 0)
        return SimpleGraph(
            vertex_count=vertices.size,
            routing=self.routing,
            origin=position[self.origin[kept]],
            dest=position[self.dest[kept]],
            link=self.link[kept],
            latency_ns=self.latency_ns[kept],
            alternatives=self.alternatives[kept],
            groups=self.groups[vertices],
        )


def simplify(network: Network) -> SimpleGraph:
    """The network's links that are up, only the best of parallel ones."""
    count = len(network.names)
    by_name = np.empty(count, dtype=np.int64)
    by_name[sorted(range(count), key=network.names.__getitem__)] = np.arange(count)
    up = np.flatnonzero(network.up)
    key = network.dest[up] * np.int64(count) + by_name[network.origin[up]]
    order = np.lexsort((-network.rate_bps[up], network.latency_ms[up], key))
    link, key = up[order], key[order]
    first = np.ones(link.size, dtype=np.bool_)
    first[1:] = key[1:] != key[:-1]
    bunch = np.cumsum(first) - 1
    best = link[first]

    latency_ns = np.rint(network.latency_ms * _NS_PER_MS)
    by_hops = network.routing is Routing.HOPS
    as_short = by_hops | (latency_ns[link] == latency_ns[best][bunch])
    alternatives = np.bincount(bunch[as_short], minlength=best.size).astype(np.int32)
    origin, dest = network.origin[best], network.dest[best]
    groups = np.arange(count, dtype=np.int32)
    if not by_hops:
        free = latency_ns[best] == 0
        joined = csr_array((np.ones(int(free.sum())), (origin[free], dest[free])), shape=(count, count))
        groups = connected_components(joined, directed=True, connection="strong")[1].astype(np.int32)
        alternatives[groups[origin] == groups[dest]] = 0
    return SimpleGraph(
        vertex_count=count,
        routing=network.routing,
        origin=origin,
        dest=dest,
        link=best.astype(np.int32),
        latency_ns=latency_ns[best],
        alternatives=alternatives,
        groups=groups,
    )


@dataclass(frozen=True, eq=False, slots=True)
class Trees:
    """Shortest routes from some vertices; every array is by source, then by vertex."""

    hops: Ints
    """-1: unreachable."""
    via: Ints
    """The last link of the route, an index into the graph's links; -1 at the source and where unreachable."""
    forks: Flags
    """Whether another route, as short by the first measure, enters the vertex (or its group) by another link."""


class Router:
    """Finds shortest routes in one graph."""

    def __init__(self, graph: SimpleGraph) -> None:
        self._graph = graph
        self._by_hops = graph.routing is Routing.HOPS
        most_hops = max(graph.vertex_count - 1, 1)
        longest = min(float(graph.latency_ns.sum()), most_hops * float(graph.latency_ns.max(initial=0)))
        hop_bits, latency_bits = most_hops.bit_length(), int(longest).bit_length()
        coarser = max(0, hop_bits + latency_bits - _EXACT_BITS)
        latency = np.floor(graph.latency_ns / 2.0**coarser).astype(np.int64)
        self._shift = latency_bits - coarser if self._by_hops else hop_bits
        hop = np.ones_like(latency)
        self._major = hop if self._by_hops else latency
        self._weight = (self._major << self._shift) + (latency if self._by_hops else hop)
        shape = (graph.vertex_count, graph.vertex_count)
        self._matrix = csr_array((self._weight.astype(np.float64), (graph.origin, graph.dest)), shape=shape)
        self._first_into = np.flatnonzero(np.diff(graph.dest, prepend=-1))

    def trees(self, sources: Ints) -> Trees:
        """The routes from every source to every vertex. Memory: about 50 bytes per pair."""
        graph = self._graph
        found = dijkstra(self._matrix, indices=sources)
        distance = np.where(np.isinf(found), _UNREACHED, found).astype(np.int64)
        major = distance >> self._shift
        reached = distance >= 0
        minor = distance & ((1 << self._shift) - 1)
        hops = np.where(reached, major if self._by_hops else minor, -1).astype(np.int32)

        # By vertex, then by source: the passes over links below then read whole rows.
        distance = np.ascontiguousarray(distance.T)
        major = np.ascontiguousarray(major.T)
        via = np.full(distance.shape, -1, dtype=np.int32)
        entries = np.zeros(distance.shape, dtype=np.int32)
        for links, starts in self._chunks(sources.size):
            origin, dest = graph.origin[links], graph.dest[links]
            into = dest[starts]
            number = np.arange(links.start, links.stop, dtype=np.int32)[:, None]
            tight = distance[origin] + self._weight[links, None] == distance[dest]
            first = np.minimum.reduceat(np.where(tight, number, _NO_LINK), starts, axis=0)
            via[into] = np.where(first == _NO_LINK, -1, first)
            as_short = major[origin] + self._major[links, None] == major[dest]
            entries[into] = np.add.reduceat(as_short * graph.alternatives[links, None], starts, axis=0)
        for members in self._joined():
            entries[members] = entries[members].sum(axis=0)
        forks = np.ascontiguousarray((entries > 1).T)
        return Trees(hops=hops, via=np.ascontiguousarray(via.T), forks=forks)

    def _chunks(self, width: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Links in slices of bounded size that never split those into one vertex, with the start of each vertex."""
        ends = np.append(self._first_into[1:], self._graph.link.size)
        most = max(1, _CHUNK_ELEMENTS // max(width, 1))
        place = 0
        while place < self._first_into.size:
            start = self._first_into[place]
            stop_place = max(place + 1, int(np.searchsorted(ends, start + most, side="right")))
            yield slice(int(start), int(ends[stop_place - 1])), self._first_into[place:stop_place] - start
            place = stop_place

    def _joined(self) -> Iterator[NDArray[np.int64]]:
        """The groups of more than one vertex."""
        _, sizes = np.unique(self._graph.groups, return_counts=True)
        if (sizes > 1).any():
            order = np.argsort(self._graph.groups, kind="stable")
            for members in np.split(order, np.cumsum(sizes)[:-1]):
                if members.size > 1:
                    yield members
