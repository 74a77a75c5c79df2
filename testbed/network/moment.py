"""A moment: the network as it is at some time, after everything on the timeline up to then.

Takes a `Topology` with its `Network` and a time, gives a `Network`; touches nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from testbed.network.graph import Flags, Ints, Network
from testbed.network.timeline import BridgeChange, LinksChange, NodesChange, PartitionChange, timeline
from testbed.topologies.event_checks import starting_absent
from testbed.topologies.model import NodeAction, Topology

_CUTS = {
    NodeAction.LEAVE: True,
    NodeAction.CRASH: True,
    NodeAction.DISCONNECT: True,
    NodeAction.JOIN: False,
    NodeAction.RECONNECT: False,
}
"""Whether a node has no links afterwards; a paused node keeps them, it just does not answer."""


def network_at(topology: Topology, network: Network, at_s: float, seed: int) -> Network:
    """The network at a time; events with a count draw their nodes from the seed."""
    moment = _Moment(topology, network)
    for change in timeline(topology, seed, at_s):
        match change:
            case LinksChange():
                moment.change_links(change)
            case BridgeChange():
                moment.cut[moment.bridges[change.bridge]] = not change.up
            case NodesChange():
                if change.action in _CUTS:
                    moment.cut[list(change.ranks)] = _CUTS[change.action]
            case PartitionChange(begins=True):
                moment.partitions[change.number] = change.groups
            case PartitionChange():
                del moment.partitions[change.number]
    return moment.network()


class _Moment:
    """The arrays of a network while the timeline is applied to them."""

    def __init__(self, topology: Topology, network: Network) -> None:
        self.topology = topology
        self.base = network
        self.latency_ms = network.latency_ms.copy()
        self.jitter_ms = network.jitter_ms.copy()
        self.loss = network.loss.copy()
        self.rate_bps = network.rate_bps.copy()
        self.up = network.up.copy()
        self.cut = np.zeros(len(network.names), dtype=np.bool_)
        self.cut[list(starting_absent(topology))] = True
        self.cause = np.zeros(network.link_count, dtype=np.int64)
        self.shared = [
            (number, link) for number, link in enumerate(topology.links) if link.origin_shared or link.dest_shared
        ]
        self.partitions: dict[int, tuple[tuple[int, ...], ...]] = {}
        self.bridges = {bridge.name: network.node_count + place for place, bridge in enumerate(topology.bridges)}
        self._masks: dict[tuple[str, str], Flags] = {}

    def vertices(self, endpoint: str) -> Flags:
        """Which vertices an endpoint names."""
        named = np.zeros(len(self.base.names), dtype=np.bool_)
        if endpoint in self.bridges:
            named[self.bridges[endpoint]] = True
        else:
            named[list(self.topology.select(endpoint))] = True
        return named

    def links(self, origin: str, dest: str) -> Flags:
        """The links between two endpoints of an event. A shared link is one link: it changes as a whole."""
        if (origin, dest) not in self._masks:
            network = self.base
            origins, dests = self.vertices(origin), self.vertices(dest)
            links = origins[network.origin] & dests[network.dest]
            touched = [
                number
                for number, link in self.shared
                if (self.vertices(link.origin) & origins).any() and (self.vertices(link.dest) & dests).any()
            ]
            self._masks[origin, dest] = links | np.isin(network.declared, touched) if touched else links
        return self._masks[origin, dest]

    def change_links(self, event: LinksChange) -> None:
        links = self.links(event.origin, event.dest)
        real = links & ~self.base.access_leg
        change = event.change
        if change.latency_ms is not None:
            self.latency_ms[real] = change.latency_ms
        if change.jitter_ms is not None:
            self.jitter_ms[real] = change.jitter_ms
        if change.loss is not None:
            self.loss[real] = change.loss
        if change.rate_bps is not None:
            self.rate_bps[links] = change.rate_bps
        if event.is_ending:
            self.up[links & (self.cause == event.cause)] = True
        elif event.up is not None:
            self.up[links] = event.up
            self.cause[links] = event.cause

    def group_by_rank(self, groups: tuple[tuple[int, ...], ...]) -> Ints:
        group = np.full(self.base.node_count, -1, dtype=np.int32)
        for number, ranks in enumerate(groups):
            group[list(ranks)] = number
        return group

    def network(self) -> Network:
        return replace(
            self.base,
            latency_ms=self.latency_ms,
            jitter_ms=self.jitter_ms,
            loss=self.loss,
            rate_bps=self.rate_bps,
            up=self.up & ~self.cut[self.base.origin] & ~self.cut[self.base.dest],
            partitions=tuple(self.group_by_rank(groups) for groups in dict.fromkeys(self.partitions.values())),
        )
