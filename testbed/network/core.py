"""The core: the part of a network that can lie between two vertices.

Takes a `Network`, gives its `Core`; touches nothing.

Most vertices of a real file have one neighbour only: a node behind its access link. Such a *stub* never lies between
two others, so routes are computed among the rest only; a stub's own links are added at the ends of its paths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.network.graph import Flags, Ints, Network
from testbed.network.routing import SimpleGraph, simplify


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """Access links of stubs in one direction, by vertex."""

    link: Ints
    """Index of the network's link; -1 where there is none: no stub, or cut off in this direction."""
    forks: Flags
    """Whether a parallel link is as short."""


@dataclass(frozen=True, eq=False, slots=True)
class Core:
    """The vertices that are not stubs, renumbered, and where the stubs are attached."""

    graph: SimpleGraph
    position: Ints
    """Number in the core, by vertex; a stub has that of its neighbour."""
    is_stub: Flags
    inbound: Access
    """From the core to the stub."""
    outbound: Access

    def starts(self, ranks: Ints) -> Flags:
        """Whether each node can send into the core."""
        found: Flags = ~self.is_stub[ranks] | (self.outbound.link[ranks] >= 0)
        return found

    def ends(self, ranks: Ints) -> Flags:
        """Whether each node can be reached from the core."""
        found: Flags = ~self.is_stub[ranks] | (self.inbound.link[ranks] >= 0)
        return found


def find_core(network: Network) -> Core:
    """The core of a network; two vertices that are each other's only neighbours both belong to it."""
    graph = simplify(network)
    count = graph.vertex_count
    neighbours = _neighbour_counts(graph)
    leaf = neighbours == 1
    to_stub = leaf[graph.dest] & ~leaf[graph.origin]
    from_stub = leaf[graph.origin] & ~leaf[graph.dest]
    is_stub = np.zeros(count, dtype=np.bool_)
    is_stub[graph.dest[to_stub]] = True
    is_stub[graph.origin[from_stub]] = True

    kept = np.flatnonzero(~is_stub).astype(np.int32)
    position = np.full(count, -1, dtype=np.int32)
    position[kept] = np.arange(kept.size, dtype=np.int32)
    core_graph = graph.restricted(kept, position)
    position[graph.dest[to_stub]] = position[graph.origin[to_stub]]
    position[graph.origin[from_stub]] = position[graph.dest[from_stub]]
    return Core(
        graph=core_graph,
        position=position,
        is_stub=is_stub,
        inbound=_access(graph, to_stub, graph.dest),
        outbound=_access(graph, from_stub, graph.origin),
    )


def _neighbour_counts(graph: SimpleGraph) -> NDArray[np.int64]:
    lower, upper = np.minimum(graph.origin, graph.dest), np.maximum(graph.origin, graph.dest)
    pairs = np.unique(lower * np.int64(graph.vertex_count) + upper)
    ends = np.concatenate([pairs // graph.vertex_count, pairs % graph.vertex_count])
    return np.bincount(ends, minlength=graph.vertex_count)


def _access(graph: SimpleGraph, chosen: Flags, stub: Ints) -> Access:
    link = np.full(graph.vertex_count, -1, dtype=np.int32)
    link[stub[chosen]] = graph.link[chosen]
    forks = np.zeros(graph.vertex_count, dtype=np.bool_)
    forks[stub[chosen]] = graph.alternatives[chosen] > 1
    return Access(link=link, forks=forks)
