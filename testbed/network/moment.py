"""The network at a given time, after all changes of the timeline up to then.

Takes a `Topology`, its `Network` and a time, gives a `Network`, or one for every instant of the timeline; touches
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

import numpy as np

from testbed.network.graph import Flags, Ints, Network, unlimited_if_none
from testbed.network.timeline import BridgeChange, Change, LinksChange, NodesChange, PartitionChange, timeline
from testbed.topologies.event_checks import starting_absent
from testbed.topologies.model import NodeAction, Topology

_CUTS = {
    NodeAction.LEAVE: True,
    NodeAction.CRASH: True,
    NodeAction.DISCONNECT: True,
    NodeAction.JOIN: False,
    NodeAction.RECONNECT: False,
}
"""Whether a node has no links afterwards; a paused node keeps them but does not answer."""


def network_at(topology: Topology, network: Network, at_s: float, seed: int) -> Network:
    """The network at a time; nodes of events with a count are drawn from the seed."""
    moment = _Moment(topology, network)
    for change in timeline(topology, seed, at_s):
        moment.apply(change)
    return moment.network()


def moments(
    topology: Topology, network: Network, seed: int, until_s: float = float("inf"), *, leavers_keep_links: bool = False
) -> Iterator[tuple[float, tuple[Change, ...], Network]]:
    """Every instant of the timeline up to and including `until_s`: its changes, and the network afterwards.

    The network before the first of them is `network_before`. Where no change of an instant concerns the network (such
    as a pause), it is the same object as before. With `leavers_keep_links` a node that leaves keeps its links: it may
    still have something to send, and the runtime knows when it is gone.
    """
    moment = _Moment(topology, network)
    if leavers_keep_links:
        moment.cuts = {action: cut for action, cut in _CUTS.items() if action is not NodeAction.LEAVE}
    latest = moment.network()
    for at_s, together in groupby(timeline(topology, seed, until_s), key=attrgetter("at_s")):
        changes = tuple(together)
        concerned = [moment.apply(change) for change in changes]
        if any(concerned):
            latest = moment.network()
        yield at_s, changes, latest


def network_before(topology: Topology, network: Network) -> Network:
    """The network before the first change: nodes that join later have no links yet."""
    return _Moment(topology, network).network()


def vertices_of(topology: Topology, network: Network, endpoint: str) -> Flags:
    """The vertices that a bridge's name or a selector of nodes stands for; none for an unknown name."""
    named = np.zeros(len(network.names), dtype=np.bool_)
    bridges = [bridge.name for bridge in topology.bridges]
    if endpoint in bridges:
        named[network.node_count + bridges.index(endpoint)] = True
    else:
        named[list(topology.select(endpoint))] = True
    return named


def links_between(topology: Topology, network: Network, origin: str, dest: str) -> Flags:
    """The links from one endpoint to another, all parts of a shared link included."""
    origins, dests = vertices_of(topology, network, origin), vertices_of(topology, network, dest)
    touched = [
        number
        for number, link in enumerate(topology.links)
        if (link.origin_shared or link.dest_shared)
        and (vertices_of(topology, network, link.origin) & origins).any()
        and (vertices_of(topology, network, link.dest) & dests).any()
    ]
    between = origins[network.origin] & dests[network.dest]
    return between | np.isin(network.declared, touched) if touched else between


class _Moment:
    """The arrays of a network while the timeline is applied to them."""

    def __init__(self, topology: Topology, network: Network) -> None:
        self.topology = topology
        self.base = network
        self.cuts = _CUTS
        self.latency_ms = network.latency_ms.copy()
        self.jitter_ms = network.jitter_ms.copy()
        self.loss = network.loss.copy()
        self.rate_bps = network.rate_bps.copy()
        self.queue_ms = network.queue_ms.copy()
        self.queue_bytes = network.queue_bytes.copy()
        self.background_bps = network.background_bps.copy()
        self.up = network.up.copy()
        self.cut = np.zeros(len(network.names), dtype=np.bool_)
        self.cut[list(starting_absent(topology))] = True
        self.cause = np.zeros(network.link_count, dtype=np.int64)
        self.partitions: dict[int, tuple[tuple[int, ...], ...]] = {}
        self.bridges = {bridge.name: network.node_count + place for place, bridge in enumerate(topology.bridges)}
        self._masks: dict[tuple[str, str], Flags] = {}

    def apply(self, change: Change) -> bool:
        """Applies a change; False when it does not concern the network."""
        match change:
            case LinksChange():
                self.change_links(change)
            case BridgeChange():
                self.cut[self.bridges[change.bridge]] = not change.up
            case NodesChange():
                if change.action not in self.cuts:
                    return False
                self.cut[list(change.ranks)] = self.cuts[change.action]
            case PartitionChange(begins=True):
                self.partitions[change.number] = change.groups
            case PartitionChange():
                del self.partitions[change.number]
        return True

    def links(self, origin: str, dest: str) -> Flags:
        """The links between two endpoints of an event."""
        if (origin, dest) not in self._masks:
            self._masks[origin, dest] = links_between(self.topology, self.base, origin, dest)
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
        if change.queue is not None:
            self.queue_ms[links] = unlimited_if_none(change.queue.ms)
            self.queue_bytes[links] = unlimited_if_none(change.queue.size_bytes)
        if change.background_bps is not None:
            self.background_bps[real] = change.background_bps
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
        """The current network, which later changes do not modify."""
        return replace(
            self.base,
            latency_ms=self.latency_ms.copy(),
            jitter_ms=self.jitter_ms.copy(),
            loss=self.loss.copy(),
            rate_bps=self.rate_bps.copy(),
            queue_ms=self.queue_ms.copy(),
            queue_bytes=self.queue_bytes.copy(),
            background_bps=self.background_bps.copy(),
            up=self.up & ~self.cut[self.base.origin] & ~self.cut[self.base.dest],
            partitions=tuple(self.group_by_rank(groups) for groups in dict.fromkeys(self.partitions.values())),
        )
