"""Which links a pair of nodes uses.

Takes a `Network`, gives the links of a pair; touches nothing. All paths are worked out when it is made, which takes
a while for a large network: what is known beforehand can be prepared elsewhere and handed to `Packets.change`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from testbed.network.graph import Ints, Network
from testbed.network.packets.wire import ordinals

NO_LINK, NOT_A_STUB = -1, -2


class RouteTrees(NamedTuple):
    """All routes as arrays: trees over the vertices that are no stubs, and the stubs' own links.

    The route of a pair is found from its end: the link into the destination if that is a stub, then edge after edge of
    the origin's tree up to the origin's vertex, then the link out of the origin if that is a stub.
    """

    via: Ints
    """By tree and vertex: the edge over which the tree reaches the vertex; negative at its root, and out of reach."""
    edge_from: Ints
    """By edge: the vertex where it begins."""
    edge_link: Ints
    """By edge: which of the network's links it is."""
    tree_of: Ints
    """By rank."""
    vertex_of: Ints
    """By rank; a stub's is that of its neighbour."""
    link_out: Ints
    """By rank: the link of a stub into the trees, NO_LINK where it is cut off, NOT_A_STUB for others."""
    link_in: Ints


class Routes:
    """The routes of one network, without its partitions."""

    def __init__(self, network: Network) -> None:
        # Brings scipy: only what works out paths should have to load it.
        from testbed.network.paths import compute_paths

        self._network = replace(network, partitions=())
        paths = compute_paths(self._network)
        nothing = np.empty((0, 0))
        # What paths add up to is of no use here, and is most of the memory.
        self._paths = replace(
            paths, latency_ms=nothing, jitter_ms=nothing, loss=nothing, bandwidth_bps=nothing, tied=nothing.astype(bool)
        )
        stub = paths.core.is_stub
        has_twin = np.zeros(network.link_count, dtype=np.bool_)
        ends = network.origin * np.int64(len(network.names)) + network.dest
        has_twin[ordinals(network) > 0] = True
        has_twin = np.isin(ends, ends[has_twin])
        self._only_way = (stub[network.origin] | stub[network.dest]) & ~has_twin
        self._has_twin = has_twin

    def hold(self, network: Network) -> bool:
        """Whether these are the routes of another state of the network, but for pairs that then have a link down.

        Only a cheap test: False where it takes more to know.
        """
        mine = self._network
        fell = mine.up & ~network.up
        rose = network.up & ~mine.up
        slower = mine.latency_ms != network.latency_ms
        other = slower | (mine.rate_bps != network.rate_bps)
        return not (
            rose.any()
            or (fell & ~self._only_way).any()
            or (slower & ~self._only_way).any()
            or (other & self._has_twin).any()
        )

    def trees(self) -> RouteTrees:
        paths, core = self._paths, self._paths.core
        nodes = slice(self._network.node_count)

        def legs(links: Ints) -> Ints:
            return np.where(core.is_stub[nodes], links[nodes], NOT_A_STUB).astype(np.int32)

        return RouteTrees(
            via=np.ascontiguousarray(paths.via, dtype=np.int32),
            edge_from=np.ascontiguousarray(core.graph.origin, dtype=np.int32),
            edge_link=np.ascontiguousarray(core.graph.link, dtype=np.int32),
            tree_of=np.ascontiguousarray(paths.core_rows, dtype=np.int32),
            vertex_of=np.ascontiguousarray(core.position[nodes], dtype=np.int32),
            link_out=legs(core.outbound.link),
            link_in=legs(core.inbound.link),
        )

    def links(self, origin: int, dest: int) -> list[int]:
        """In order; none where there is no path."""
        return self._paths.links(origin, dest)
