"""A second path model, slow and plain: every simple route of a small topology, listed and compared.

It shares nothing with the first one but the topology: links are expanded here by nested loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

from testbed.topologies.model import Link, Routing, Topology


@dataclass(frozen=True)
class Edge:
    origin: str
    dest: str
    latency_ms: float
    jitter_ms: float
    loss: float
    rate_bps: float
    number: int

    @property
    def latency_ns(self) -> int:
        return round(self.latency_ms * 1e6)


@dataclass(frozen=True)
class Expected:
    latency_ms: float
    jitter_ms: float
    loss: float
    bandwidth_bps: float
    hops: int
    tied: bool
    route: tuple[int, ...]


def members(topology: Topology, endpoint: str) -> list[str]:
    if endpoint in {bridge.name for bridge in topology.bridges}:
        return [endpoint]
    return [topology.nodes[rank].name for rank in topology.select(endpoint)]


def sides(topology: Topology, link: Link) -> Iterator[tuple[list[str], list[str], bool]]:
    """Origins, destinations and whether these are the link itself (not the legs of a shared side)."""
    origins, dests = members(topology, link.origin), members(topology, link.dest)
    if not origins or not dests:
        return
    if link.origin_shared and len(origins) > 1:
        meeting = [f"{link.origin}~{link.dest}"]
        yield origins, meeting, False
        origins = meeting
    if link.dest_shared and len(dests) > 1:
        meeting = [f"{link.dest}~{link.origin}" + ("~" if link.dest == link.origin else "")]
        yield origins, meeting, True
        yield meeting, dests, False
    else:
        yield origins, dests, True


def edges_of(topology: Topology) -> list[Edge]:
    """Every directed link, numbered in document order; those that start down are numbered but left out."""
    edges: list[Edge] = []
    number = 0
    for link in topology.links:
        for origins, dests, real in sides(topology, link):
            for origin, dest in product(origins, dests):
                if origin == dest:
                    continue
                p = link.properties
                shown = (p.latency_ms, p.jitter_ms, p.loss) if real else (0.0, 0.0, 0.0)
                if not link.starts_down:
                    edges.append(Edge(origin, dest, *shown, p.rate_bps, number))
                number += 1
    return edges


def simple_routes(edges: list[Edge], source: str) -> Iterator[tuple[Edge, ...]]:
    def extend(route: tuple[Edge, ...], seen: frozenset[str], at: str) -> Iterator[tuple[Edge, ...]]:
        for edge in edges:
            if edge.origin == at and edge.dest not in seen:
                longer = (*route, edge)
                yield longer
                yield from extend(longer, seen | {edge.dest}, edge.dest)

    return extend((), frozenset({source}), source)


def freely_joined(edges: list[Edge]) -> dict[str, frozenset[str]]:
    """By vertex: those that it reaches without latency and that reach it so."""
    vertices = {edge.origin for edge in edges} | {edge.dest for edge in edges}
    free = {vertex: {vertex} for vertex in vertices}
    for _ in vertices:
        for edge in edges:
            if edge.latency_ns == 0:
                for reached in free.values():
                    if edge.origin in reached:
                        reached.add(edge.dest)
    return {v: frozenset(w for w in vertices if w in free[v] and v in free[w]) for v in vertices}


class Oracle:
    """The paths of a small topology."""

    def __init__(self, topology: Topology) -> None:
        self.by_hops = topology.routing is Routing.HOPS
        self.edges = edges_of(topology)
        self.groups = freely_joined(self.edges)

    def measure(self, route: tuple[Edge, ...]) -> tuple[int, int]:
        latency = sum(edge.latency_ns for edge in route)
        return (len(route), latency) if self.by_hops else (latency, len(route))

    def paths_from(self, source: str) -> dict[str, Expected]:
        routes: dict[str, list[tuple[Edge, ...]]] = {}
        for route in simple_routes(self.edges, source):
            routes.setdefault(route[-1].dest, []).append(route)
        best = {source: (0, 0)} | {dest: min(map(self.measure, found)) for dest, found in routes.items()}
        return {
            dest: self._expected(self._choose(best, source, dest), self._tied(found)) for dest, found in routes.items()
        }

    def _choose(self, best: dict[str, tuple[int, int]], source: str, dest: str) -> tuple[Edge, ...]:
        if dest == source:
            return ()
        candidates = []
        for edge in self.edges:
            if edge.dest == dest and edge.origin in best:
                major, minor = self.measure((edge,))
                before = best[edge.origin]
                if (before[0] + major, before[1] + minor) == best[dest]:
                    candidates.append(edge)
        last = min(candidates, key=lambda edge: (edge.origin, edge.latency_ms, -edge.rate_bps, edge.number))
        return (*self._choose(best, source, last.origin), last)

    def _tied(self, routes: list[tuple[Edge, ...]]) -> bool:
        shortest = min(self.measure(route)[0] for route in routes)
        as_short = [route for route in routes if self.measure(route)[0] == shortest]
        if self.by_hops:
            return len(as_short) > 1
        between_groups = {
            tuple(edge.number for edge in route if edge.dest not in self.groups[edge.origin]) for route in as_short
        }
        return len(between_groups) > 1

    @staticmethod
    def _expected(route: tuple[Edge, ...], tied: bool) -> Expected:
        assert all(edge.dest == following.origin for edge, following in pairwise(route))
        return Expected(
            latency_ms=math.fsum(edge.latency_ms for edge in route),
            jitter_ms=math.sqrt(math.fsum(edge.jitter_ms**2 for edge in route)),
            loss=1 - math.prod(1 - edge.loss for edge in route),
            bandwidth_bps=min(edge.rate_bps for edge in route),
            hops=len(route),
            tied=tied,
            route=tuple(edge.number for edge in route),
        )
