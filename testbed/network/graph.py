"""The graph: every node, bridge and directed link of a topology, as arrays.

Takes a `Topology`, gives a `Network`; touches nothing.

A link between groups of nodes becomes one link for every pair of members. Nodes that share an access link stand
behind a hidden vertex, their *meeting point*: the legs from them to it have the link's rate and queue and no other
property, the link behind it has all of them. Both directions of a link meet at the same point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.model import Routing, Topology
from testbed.units import UNLIMITED

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Network:
    """All directed links between vertices: nodes by rank, then bridges in document order, then meeting points."""

    names: tuple[str, ...]
    """Name of every vertex."""
    node_count: int
    bridge_count: int
    routing: Routing
    origin: Ints
    dest: Ints
    latency_ms: Floats
    jitter_ms: Floats
    loss: Floats
    rate_bps: Floats
    """Infinite where the link is unlimited."""
    queue_ms: Floats
    """Queue limit as a time; infinite where `queue_bytes` is the limit."""
    queue_bytes: Floats
    """Queue limit in bytes; infinite where `queue_ms` is the limit."""
    background_bps: Floats
    """Background traffic, which takes this much of the rate."""
    declared: Ints
    """Index of the topology's link from which each comes."""
    access_leg: Flags
    """Legs to and from meeting points: they have the link's rate and queue; the link has all other properties."""
    up: Flags
    """False for links that are down; paths leave them out."""
    partitions: tuple[Ints, ...] = ()
    """For each active partition, the group of every rank (-1: none): nodes of different groups have no path."""

    @property
    def link_count(self) -> int:
        return self.origin.size


def expand(topology: Topology) -> Network:
    """The network of a topology: links in document order, and for each the pairs of its members, origin first."""
    endpoints = _Endpoints(topology)
    spans = _spans(topology, endpoints)
    table = np.array(spans, dtype=np.int64).reshape(-1, len(_Span._fields))
    origin_start, origin_count, dest_start, dest_count, declared, leg = table.T
    sizes = origin_count * dest_count
    span = np.repeat(np.arange(len(spans)), sizes)
    within = np.arange(span.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members = endpoints.members()
    origin = members[origin_start[span] + within // dest_count[span]]
    dest = members[dest_start[span] + within % dest_count[span]]
    kept = origin != dest
    span = span[kept]
    link = declared[span]
    real = leg[span] == 0

    properties = [declared_link.properties for declared_link in topology.links]
    return Network(
        names=tuple(endpoints.names),
        node_count=len(topology.nodes),
        bridge_count=len(topology.bridges),
        routing=topology.routing,
        origin=origin[kept].astype(np.int32),
        dest=dest[kept].astype(np.int32),
        latency_ms=np.array([each.latency_ms for each in properties], dtype=np.float64)[link] * real,
        jitter_ms=np.array([each.jitter_ms for each in properties], dtype=np.float64)[link] * real,
        loss=np.array([each.loss for each in properties], dtype=np.float64)[link] * real,
        rate_bps=np.array([each.rate_bps for each in properties], dtype=np.float64)[link],
        queue_ms=np.array([unlimited_if_none(each.queue.ms) for each in properties], dtype=np.float64)[link],
        queue_bytes=np.array([unlimited_if_none(each.queue.size_bytes) for each in properties], dtype=np.float64)[link],
        background_bps=np.array([each.background_bps for each in properties], dtype=np.float64)[link] * real,
        declared=link.astype(np.int32),
        access_leg=~real,
        up=~np.array([declared_link.starts_down for declared_link in topology.links], dtype=np.bool_)[link],
    )


def unlimited_if_none(limit: float | None) -> float:
    """A limit as a network's arrays store it."""
    return UNLIMITED if limit is None else float(limit)


def count_directed_links(topology: Topology) -> int:
    """How many links `expand` would make."""
    endpoints = _Endpoints(topology)
    return sum(
        span.origin_count * span.dest_count - endpoints.in_both(span.origin, span.dest)
        for span in _spans(topology, endpoints)
    )


class _Group(NamedTuple):
    """A set of vertices: a slice of `_Endpoints.members`."""

    start: int
    size: int


class _Span(NamedTuple):
    """The links from every member of one group to every member of another."""

    origin_start: int
    origin_count: int
    dest_start: int
    dest_count: int
    declared: int
    leg: bool

    @property
    def origin(self) -> _Group:
        return _Group(self.origin_start, self.origin_count)

    @property
    def dest(self) -> _Group:
        return _Group(self.dest_start, self.dest_count)


class _Endpoints:
    """The vertices that a link's endpoint stands for."""

    def __init__(self, topology: Topology) -> None:
        self.names = [node.name for node in topology.nodes] + [bridge.name for bridge in topology.bridges]
        self._topology = topology
        self._visible = len(self.names)
        self._bridges = {bridge.name: len(topology.nodes) + place for place, bridge in enumerate(topology.bridges)}
        self._listed: list[int] = []
        self._groups: dict[str, _Group] = {}
        self._meeting_points: dict[tuple[str, str, bool], _Group] = {}
        self._taken = set(self.names)

    def group(self, endpoint: str) -> _Group:
        """A bridge, or the nodes that a selector names."""
        if endpoint not in self._groups:
            self._groups[endpoint] = self._look_up(endpoint)
        return self._groups[endpoint]

    def _look_up(self, endpoint: str) -> _Group:
        if endpoint in self._bridges:
            return _Group(self._bridges[endpoint], 1)
        ranks = self._topology.select(endpoint)
        if isinstance(ranks, range) or len(ranks) == 1:
            return _Group(ranks[0] if ranks else 0, len(ranks))
        return self._list(ranks)

    def _list(self, vertices: tuple[int, ...]) -> _Group:
        start = self._visible + len(self._listed)
        self._listed.extend(vertices)
        return _Group(start, len(vertices))

    def meeting_point(self, shared: str, other: str, is_dest: bool) -> _Group:
        """The hidden vertex where the members of one endpoint meet on their way to the other, and back."""
        is_second = is_dest and shared == other
        key = (shared, other, is_second)
        if key not in self._meeting_points:
            name = f"{shared}~{other}" + "~" * is_second
            while name in self._taken:
                name += "~"
            self._taken.add(name)
            self.names.append(name)
            self._meeting_points[key] = self._list((len(self.names) - 1,))
        return self._meeting_points[key]

    def members(self) -> NDArray[np.int64]:
        """The array that groups are slices of: all nodes and bridges, then vertices of non-contiguous groups."""
        return np.concatenate([np.arange(self._visible), np.array(self._listed, dtype=np.int64)])

    def in_both(self, one: _Group, other: _Group) -> int:
        """Number of vertices that two groups have in common."""
        if max(one.start, other.start) < self._visible:
            return max(0, min(one.start + one.size, other.start + other.size) - max(one.start, other.start))
        return len(self._vertices(one) & self._vertices(other))

    def _vertices(self, group: _Group) -> set[int]:
        if group.start < self._visible:
            return set(range(group.start, group.start + group.size))
        first = group.start - self._visible
        return set(self._listed[first : first + group.size])


def _spans(topology: Topology, endpoints: _Endpoints) -> list[_Span]:
    """Every declared link as one to three spans: the legs of its shared sides, and the link itself."""
    spans: list[_Span] = []
    for declared, link in enumerate(topology.links):
        origin, dest = endpoints.group(link.origin), endpoints.group(link.dest)
        if not origin.size or not dest.size:
            continue
        if link.origin_shared and origin.size > 1:
            meeting = endpoints.meeting_point(link.origin, link.dest, is_dest=False)
            spans.append(_Span(*origin, *meeting, declared, leg=True))
            origin = meeting
        if link.dest_shared and dest.size > 1:
            meeting = endpoints.meeting_point(link.dest, link.origin, is_dest=True)
            spans.append(_Span(*origin, *meeting, declared, leg=False))
            spans.append(_Span(*meeting, *dest, declared, leg=True))
        else:
            spans.append(_Span(*origin, *dest, declared, leg=False))
    return spans
