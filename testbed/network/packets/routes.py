"""Which links a pair of nodes uses.

Takes a `Network`, gives the links of a pair; touches nothing. All paths are worked out when it is made, which takes
a while for a large network: what is known beforehand can be prepared elsewhere and handed to `Packets.change`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from testbed.network.graph import Network
from testbed.network.packets.wire import ordinals


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

    def links(self, origin: int, dest: int) -> list[int]:
        """In order; none where there is no path."""
        return self._paths.links(origin, dest)
