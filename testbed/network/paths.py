"""The path model: end-to-end properties of every ordered pair of nodes.

Takes a `Network`, gives `Paths`; touches nothing.

Latencies add up, jitter is the square root of the sum of squares, a packet arrives if no link loses it, and the slowest
link is the bandwidth. Nodes may forward for others. `routing` chooses the routes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.network.core import Access, Core, find_core
from testbed.network.graph import Flags, Floats, Ints, Network
from testbed.network.routing import Router, Trees

_BLOCK_ELEMENTS = 1 << 22
"""Pairs of core vertices processed at once: bounds the memory beside the result."""
_ROWS_ELEMENTS = 1 << 19


@dataclass(frozen=True, eq=False, slots=True)
class PathProperties:
    """End-to-end properties of pairs, by source, then by destination."""

    latency_ms: Floats
    jitter_ms: Floats
    loss: Floats
    bandwidth_bps: Floats
    """Infinite where all links of the path are unlimited."""
    hops: Ints
    """Links on the path, the legs of shared access links included."""
    tied: Flags
    """Whether another route is as short by the first measure of the routing rule (hops or latency)."""


@dataclass(frozen=True, eq=False, slots=True)
class Paths(PathProperties):
    """Properties by source (in the order asked for), then by the rank of the destination; and the routes.

    A pair without a path has hops -1, latency inf, jitter 0, loss 1, bandwidth 0. A node and itself is not a path:
    hops 0, latency 0, jitter 0, loss 0, bandwidth inf; leave it out of statistics (`reachable` does).
    """

    network: Network
    sources: Ints
    """Ranks."""
    carried: NDArray[np.int64]
    """Number of these paths that a node forwards between two others, by rank."""
    core: Core
    core_rows: Ints
    """Row of `via` by source."""
    via: Ints
    """The last link of the route, an index into the core graph's, by core source and core vertex; -1: none."""

    @property
    def reachable(self) -> Flags:
        """Pairs of two different nodes that have a path."""
        return self.hops > 0

    def links(self, source: int, dest: int) -> list[int]:
        """The network's links on the path between two ranks, in order; none when there is no path."""
        row = self._row(source)
        if self.hops[row, dest] <= 0:
            return []
        core, via = self.core, self.via[self.core_rows[row]]
        route = [int(core.inbound.link[dest])] if core.is_stub[dest] else []
        vertex = core.position[dest]
        while (last := via[vertex]) >= 0:
            route.append(int(core.graph.link[last]))
            vertex = core.graph.origin[last]
        if core.is_stub[source]:
            route.append(int(core.outbound.link[source]))
        return route[::-1]

    def vertices_on(self, source: int, dest: int) -> list[int]:
        """The vertices on the path between two ranks, both ends included; none when there is no path."""
        route = self.links(source, dest)
        return [source, *(int(self.network.dest[link]) for link in route)] if route else []

    def _row(self, source: int) -> int:
        rows = np.flatnonzero(self.sources == source)
        if not rows.size:
            raise KeyError(f"rank {source} is not one of the sources")
        return int(rows[0])


def compute_paths(network: Network, sources: Sequence[int] | None = None) -> Paths:
    """The paths from some nodes (or all) to every node; about 40 bytes per pair, and bounded memory beside."""
    count = network.node_count
    ranks = np.arange(count, dtype=np.int32) if sources is None else np.array(sources, dtype=np.int32)
    core = find_core(network)
    router = Router(core.graph)
    starts, core_rows = np.unique(core.position[ranks], return_inverse=True)
    result = _empty(ranks.size, count)
    via = np.empty((starts.size, core.graph.vertex_count), dtype=np.int32)
    carried = np.zeros(count, dtype=np.int64)
    by_start = np.argsort(core_rows, kind="stable")
    for block in _slices(starts.size, core.graph.vertex_count, _BLOCK_ELEMENTS):
        trees = router.trees(starts[block])
        via[block] = trees.via
        rows = by_start[slice(*np.searchsorted(core_rows[by_start], (block.start, block.stop)))]
        carried += _follow(network, core, trees, ranks[rows], core_rows[rows] - block.start, rows, result)
    return Paths(
        latency_ms=result.latency_ms,
        jitter_ms=result.jitter_ms,
        loss=result.loss,
        bandwidth_bps=result.bandwidth_bps,
        hops=result.hops,
        tied=result.tied,
        network=network,
        sources=ranks,
        carried=carried,
        core=core,
        core_rows=core_rows.astype(np.int32),
        via=via,
    )


def _empty(sources: int, dests: int) -> PathProperties:
    def table() -> Floats:
        return np.empty((sources, dests), dtype=np.float64)

    hops = np.empty((sources, dests), dtype=np.int32)
    return PathProperties(table(), table(), table(), table(), hops, np.empty((sources, dests), dtype=np.bool_))


def _slices(count: int, width: int, elements: int) -> Iterator[slice]:
    """Slices of rows with at most `elements` elements, but at least one row each."""
    step = max(1, elements // max(width, 1))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def _follow(
    network: Network,
    core: Core,
    trees: Trees,
    ranks: Ints,
    tree_of: NDArray[np.intp],
    rows: NDArray[np.intp],
    result: PathProperties,
) -> NDArray[np.int64]:
    """Writes the rows of the sources that use these trees, and returns how many paths each node forwards."""
    collapsed, order = _along(network, core, trees)
    nodes = np.arange(network.node_count, dtype=np.int32)
    for part in _slices(rows.size, network.node_count, _ROWS_ELEMENTS):
        _attach(network, core, collapsed, ranks[part], tree_of[part], rows[part], result)
    return _carried(core, trees, order, ranks, tree_of, nodes)


@dataclass(frozen=True, eq=False, slots=True)
class _Levels:
    """Pairs of a block of trees that have a path, as flat indices, by number of hops."""

    pair: NDArray[np.intp]
    ends: NDArray[np.intp]

    def __iter__(self) -> Iterator[NDArray[np.intp]]:
        """Pairs one hop apart, then two, and so on."""
        for start, end in zip(self.ends[:-1], self.ends[1:], strict=True):
            yield self.pair[start:end]

    def deepest_first(self) -> Iterator[NDArray[np.intp]]:
        for start, end in zip(self.ends[-2::-1], self.ends[:0:-1], strict=True):
            yield self.pair[start:end]


def _levels(hops: Ints) -> _Levels:
    deepest = int(hops.max(initial=0))
    flat = hops.ravel()
    # Stable sorting of 16-bit numbers is a radix sort.
    pair = np.argsort(flat.astype(np.int16) if deepest < np.iinfo(np.int16).max else flat, kind="stable")
    sizes = np.bincount(flat + 1, minlength=deepest + 2)
    return _Levels(pair=pair, ends=np.cumsum(sizes)[1:])


def _along(network: Network, core: Core, trees: Trees) -> tuple[PathProperties, _Levels]:
    """Properties from every start to every core vertex; `jitter_ms` is still squared."""
    shape, width = trees.hops.shape, trees.hops.shape[1]
    reached = (trees.hops.ravel() >= 0).astype(np.float64)
    latency = np.where(reached, 0.0, np.inf)
    jitter = np.zeros(reached.size)
    loss = 1.0 - reached
    bandwidth = np.where(reached, np.inf, 0.0)
    tied = np.zeros(reached.size, dtype=np.bool_)
    forks = trees.forks.ravel()
    via = trees.via.ravel()

    link = core.graph.link
    link_latency = network.latency_ms[link]
    link_jitter = np.square(network.jitter_ms[link])
    link_loss = network.loss[link]
    link_rate = network.rate_bps[link]
    has_jitter, has_loss = bool(link_jitter.any()), bool(link_loss.any())
    levels = _levels(trees.hops)
    for pair in levels:
        last = via[pair]
        before = pair - pair % width + core.graph.origin[last]
        latency[pair] = latency[before] + link_latency[last]
        bandwidth[pair] = np.minimum(bandwidth[before], link_rate[last])
        tied[pair] = tied[before] | forks[pair]
        if has_jitter:
            jitter[pair] = jitter[before] + link_jitter[last]
        if has_loss:
            loss[pair] = _either(loss[before], link_loss[last])
    collapsed = PathProperties(
        latency_ms=latency.reshape(shape),
        jitter_ms=jitter.reshape(shape),
        loss=loss.reshape(shape),
        bandwidth_bps=bandwidth.reshape(shape),
        hops=trees.hops,
        tied=tied.reshape(shape),
    )
    return collapsed, levels


def _either(one: Floats, other: Floats) -> Floats:
    """The loss of two consecutive links, exact where one of them loses nothing."""
    return one + other - one * other


def _attach(
    network: Network,
    core: Core,
    collapsed: PathProperties,
    ranks: Ints,
    tree_of: NDArray[np.intp],
    rows: NDArray[np.intp],
    result: PathProperties,
) -> None:
    """Adds the access links of both ends to the core's properties, and writes the rows of these sources."""
    nodes = np.arange(network.node_count, dtype=np.int32)
    at = core.position[nodes]
    first = _access(network, core.outbound, ranks)
    last = _access(network, core.inbound, nodes)

    def between(table: NDArray[np.float64]) -> Floats:
        found: Floats = np.take(table[tree_of], at, axis=1)
        return found

    latency = between(collapsed.latency_ms) + first.latency_ms[:, None] + last.latency_ms
    jitter = np.sqrt(between(collapsed.jitter_ms) + np.square(first.jitter_ms)[:, None] + np.square(last.jitter_ms))
    loss = _either(_either(first.loss[:, None], between(collapsed.loss)), last.loss)
    bandwidth = np.minimum(
        np.minimum(first.bandwidth_bps[:, None], between(collapsed.bandwidth_bps)), last.bandwidth_bps
    )
    hops = np.take(collapsed.hops[tree_of], at, axis=1)
    cut_off = (hops < 0) | ~core.starts(ranks)[:, None] | ~core.ends(nodes)
    for group in network.partitions:
        ours = group[ranks][:, None]
        cut_off |= (ours >= 0) & (group >= 0) & (ours != group)
    hops = hops + first.hops[:, None] + last.hops
    tied = np.take(collapsed.tied[tree_of], at, axis=1) | first.tied[:, None] | last.tied

    self_row, self_column = np.arange(ranks.size), ranks
    for table, filler, itself in (
        (latency, np.inf, 0.0),
        (jitter, 0.0, 0.0),
        (loss, 1.0, 0.0),
        (bandwidth, 0.0, np.inf),
        (hops, -1, 0),
        (tied, False, False),
    ):
        table[cut_off] = filler
        table[self_row, self_column] = itself
    result.latency_ms[rows] = latency
    result.jitter_ms[rows] = jitter
    result.loss[rows] = loss
    result.bandwidth_bps[rows] = bandwidth
    result.hops[rows] = hops
    result.tied[rows] = tied


def _access(network: Network, access: Access, ranks: Ints) -> PathProperties:
    """What access links add to the paths of their nodes; nothing for a node without one."""
    link = access.link[ranks]
    has = link >= 0

    def added(table: Floats, none: float) -> Floats:
        found = np.full(ranks.size, none)
        found[has] = table[link[has]]
        return found

    return PathProperties(
        latency_ms=added(network.latency_ms, 0.0),
        jitter_ms=added(network.jitter_ms, 0.0),
        loss=added(network.loss, 0.0),
        bandwidth_bps=added(network.rate_bps, np.inf),
        hops=has.astype(np.int32),
        tied=access.forks[ranks],
    )


def _carried(
    core: Core, trees: Trees, levels: _Levels, ranks: Ints, tree_of: NDArray[np.intp], nodes: Ints
) -> NDArray[np.int64]:
    """Number of paths from these sources that each node forwards."""
    shape, width = trees.hops.shape, trees.hops.shape[1]
    is_stub, at = core.is_stub[nodes], core.position[nodes]
    itself = np.bincount(at[~is_stub], minlength=width)
    behind = np.bincount(at[is_stub & core.ends(nodes)], minlength=width)
    # Number of nodes reached at a vertex or beyond it.
    beyond = np.where(trees.hops >= 0, itself + behind, 0).ravel()
    via = trees.via.ravel()
    for pair in levels.deepest_first():
        np.add.at(beyond, pair - pair % width + core.graph.origin[via[pair]], beyond[pair])
    beyond = beyond.reshape(shape) - np.where(trees.hops >= 0, itself, 0)

    sending = core.starts(ranks)
    through = np.bincount(tree_of[sending], minlength=shape[0]) @ beyond
    # A tree's root forwards only for the stubs behind it, and not from a stub back to itself.
    root = core.position[ranks]
    from_root = sending & ~core.is_stub[ranks]
    from_behind = sending & core.is_stub[ranks]
    np.subtract.at(through, root[from_root], beyond[tree_of[from_root], root[from_root]])
    np.subtract.at(through, root[from_behind & core.ends(ranks)], 1)
    carried = np.zeros(nodes.size, dtype=np.int64)
    carried[~is_stub] = through[at[~is_stub]]
    return carried
