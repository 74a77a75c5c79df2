"""What the packet model's network is like now: its links, who is cut off, and the routes.

Takes networks and ranks, gives what differs; touches nothing. It knows nothing of packets, and so serves every
implementation of the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from testbed.network.graph import Network
from testbed.network.packets.routes import Routes
from testbed.network.packets.wire import Wires


class Difference(NamedTuple):
    """What a change of the network means for packets."""

    links: list[int]
    """Those with other properties, in order."""
    has_new_paths: bool
    """Pairs have to look up their links again."""
    has_new_routes: bool
    """`NetworkState.routes` are others."""


class NetworkState:
    """A network at one time scale, with some nodes cut off."""

    def __init__(self, network: Network, time_scale: float, routes: Routes | None) -> None:
        self.network = network
        self.cut: set[int] = set()
        """Ranks."""
        self._scale = time_scale
        self.wires = Wires(network, self.cut, time_scale)
        self.routes = routes or Routes(self.wires.network)

    def change(self, network: Network, routes: Routes | None) -> Difference:
        """The links are the same ones; raises ValueError where they are not.

        Routes of the new network may have been prepared; else they are worked out here when the old ones do not do.
        """
        if network.link_count != self.network.link_count or network.names != self.network.names:
            raise ValueError("another network, not a change of this one")
        before, after = self.network.partitions, network.partitions
        are_others_apart = len(before) != len(after) or not all(map(np.array_equal, before, after))
        self.network = network
        found = self._rewire(routes)
        return found._replace(has_new_paths=found.has_new_paths or are_others_apart)

    def cut_off(self, ranks: Iterable[int]) -> Difference:
        self.cut.update(ranks)
        return self._rewire(None)

    def bring_back(self, ranks: Iterable[int]) -> Difference:
        self.cut.difference_update(ranks)
        return self._rewire(None)

    def lookahead_s(self) -> tuple[list[float], float]:
        """By vertex, how long it takes at least from reaching a link that leads here; and the least of all nodes'."""
        found = self.wires.lookahead_s().tolist()
        return found, min(found[: self.network.node_count], default=0.0)

    def _rewire(self, routes: Routes | None) -> Difference:
        before, self.wires = self.wires, Wires(self.network, self.cut, self._scale)
        now, old_routes = self.wires.network, self.routes
        if routes is not None and routes.hold(now):
            self.routes = routes
        elif not old_routes.hold(now):
            self.routes = Routes(now)
        has_new_routes = self.routes is not old_routes
        differ = (now.up != before.network.up).any() or (now.latency_ms != before.network.latency_ms).any()
        return Difference(self.wires.differing(before), bool(has_new_routes or differ), has_new_routes)
