"""What the network is like now: the topology and its timeline, with what people set by hand on top.

Takes a topology and requests, gives `Network`s; touches nothing. What is set by hand holds until it is reset, whatever
the timeline does to the same links meanwhile. Which nodes are cut off is kept apart (`Presence`): there the last word
counts, the timeline's or a command's, so that a node that the timeline crashed can be brought back by hand.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import merge
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from testbed.errors import UsageProblem
from testbed.network.graph import Flags, Floats, Ints, Network, expand
from testbed.network.moment import links_between, moments, network_before, vertices_of
from testbed.network.packets import Routes
from testbed.network.timeline import Change, NodesChange, timeline
from testbed.protocol.fabric import LinkState, SetLink
from testbed.topologies.event_checks import starting_absent
from testbed.topologies.model import NodeAction, NodeEvent, Topology
from testbed.topologies.unknown_node import unknown_node
from testbed.units import MAX_LATENCY_MS, MAX_RATE_BPS, UNLIMITED, shown

_PREPARED = 32
"""How many changes of the network are worked out ahead: their routes take a while."""
_CUTS = {
    NodeAction.CRASH: True,
    NodeAction.DISCONNECT: True,
    NodeAction.JOIN: False,
    NodeAction.RECONNECT: False,
}
"""A node that leaves has something to send still: control says when it is gone. A paused one keeps its links."""


class Turn(NamedTuple):
    """An instant of the timeline, in emulated seconds."""

    at_s: float
    changes: tuple[Change, ...]
    network: Network | None
    """Afterwards; None where only nodes come and go."""
    routes: Routes | None


class Conditions:
    """The network as it is now."""

    def __init__(self, topology: Topology, seed: int) -> None:
        self._topology = topology
        links_only = replace(
            topology, events=tuple(event for event in topology.events if not isinstance(event, NodeEvent))
        )
        self._base = expand(topology)
        self._current = network_before(links_only, self._base)
        self.absent = starting_absent(topology)
        """Ranks that join later."""
        self._set: dict[int, dict[str, float]] = {}
        """By link, what was set by hand."""
        self._held: set[int] = set()
        """Links that are down for a while, by hand: what they are besides goes on below."""
        self._partitions: dict[str, Ints] = {}
        self._coming = self._turns(links_only, seed)
        self._prepared: deque[Turn] = deque(islice(self._coming, _PREPARED))

    def network(self) -> Network:
        """As it is now; later changes leave it alone."""
        now = self._current
        if self._set:
            now = self._with_what_was_set(now)
        if self._held:
            up = now.up.copy()
            up[[*self._held]] = False
            now = replace(now, up=up)
        if self._partitions:
            now = replace(now, partitions=(*now.partitions, *self._partitions.values()))
        return now

    # -- the timeline ----------------------------------------------------------------------------------------------

    @property
    def next_s(self) -> float:
        """When the timeline goes on, in emulated seconds."""
        return self._prepared[0].at_s if self._prepared else math.inf

    def turn(self) -> Turn:
        """The timeline goes on by one instant."""
        turn = self._prepared.popleft()
        self._prepared.extend(islice(self._coming, 1))
        if turn.network is None:
            return turn
        self._current = turn.network
        return turn._replace(network=self.network())

    def _turns(self, links_only: Topology, seed: int) -> Iterator[Turn]:
        """Links and nodes apart, merged by time: which links a node's absence takes down is not the network's."""
        links = (Turn(*each, None) for each in moments(links_only, self._base, seed))
        nodes = (
            Turn(change.at_s, (change,), None, None)
            for change in timeline(self._topology, seed)
            if isinstance(change, NodesChange)
        )
        routes = None
        for at_s, instant in groupby(merge(links, nodes, key=attrgetter("at_s")), key=attrgetter("at_s")):
            together = tuple(instant)
            network = next((each.network for each in together if each.network is not None), None)
            if network is not None and (routes is None or not routes.hold(network)):
                routes = Routes(network)
            yield Turn(at_s, tuple(change for each in together for change in each.changes), network, routes)

    # -- by hand ---------------------------------------------------------------------------------------------------

    def set_links(self, request: SetLink) -> int:
        """How many directed links have other properties from now on; raises UsageProblem for nonsense."""
        found = self._find(request.origin, request.dest, both=request.both)
        wanted = _wanted(request)
        for link in np.flatnonzero(found).tolist():
            leg = bool(self._base.access_leg[link])
            mine = {name: value for name, value in wanted.items() if not leg or name in _ON_LEGS}
            if mine:
                self._set.setdefault(link, {}).update(mine)
            if "up" in mine:
                self._held.discard(link)
        return int(found.sum())

    def reset_links(self, origin: str | None, dest: str | None, *, both: bool) -> int:
        """How many directed links are again what the timeline makes them."""
        if origin is None or dest is None:
            count = len(self._set.keys() | self._held)
            self._set.clear()
            self._held.clear()
            return count
        links = set(np.flatnonzero(self._find(origin, dest, both=both)).tolist())
        changed = links & (self._set.keys() | self._held)
        for link in changed:
            self._set.pop(link, None)
        self._held -= changed
        return len(changed)

    def hold_down(self, origin: str, dest: str, *, both: bool) -> None:
        self._held.update(np.flatnonzero(self._find(origin, dest, both=both)).tolist())

    def let_go(self, origin: str, dest: str, *, both: bool) -> None:
        self._held.difference_update(np.flatnonzero(self._find(origin, dest, both=both)).tolist())

    def show_links(self, origin: str, dest: str, *, both: bool) -> Iterator[LinkState]:
        """The links between two ends, now; links behind a shared access link stand beside its legs."""
        now = self.network()
        for link in np.flatnonzero(self._find(origin, dest, both=both)).tolist():
            yield LinkState(
                origin=now.names[now.origin[link]],
                dest=now.names[now.dest[link]],
                latency_ms=float(now.latency_ms[link]),
                jitter_ms=float(now.jitter_ms[link]),
                loss=float(now.loss[link]),
                rate_bps=float(now.rate_bps[link]),
                queue_ms=float(now.queue_ms[link]),
                queue_bytes=float(now.queue_bytes[link]),
                background_bps=float(now.background_bps[link]),
                up=bool(now.up[link]),
                changed=link in self._set or link in self._held,
            )

    def divide(self, name: str, groups: Iterable[Iterable[int]]) -> None:
        """A partition begins; one of the same name is replaced."""
        group_of = np.full(self._base.node_count, -1, dtype=np.int32)
        for number, ranks in enumerate(groups):
            group_of[[*ranks]] = number
        self._partitions[name] = group_of

    def heal(self, name: str) -> bool:
        return self._partitions.pop(name, None) is not None

    # -- inside ----------------------------------------------------------------------------------------------------

    def _find(self, origin: str, dest: str, *, both: bool) -> Flags:
        for endpoint in (origin, dest):
            self._check_name(endpoint)
        found = links_between(self._topology, self._base, origin, dest)
        if both:
            found = found | links_between(self._topology, self._base, dest, origin)
        if not found.any():
            raise UsageProblem(f"there is no link from {shown(origin)} to {shown(dest)}")
        return found

    def _check_name(self, endpoint: str) -> None:
        if not vertices_of(self._topology, self._base, endpoint).any():
            nodes = ((node.name, node.service.name) for node in self._topology.nodes)
            raise unknown_node(endpoint, nodes, self._topology.bridge_names)

    def _with_what_was_set(self, network: Network) -> Network:
        columns: dict[str, Floats] = {}
        up = network.up.copy()
        for link, values in self._set.items():
            for name, value in values.items():
                if name == "up":
                    up[link] = bool(value)
                    continue
                if name not in columns:
                    columns[name] = getattr(network, name).copy()
                columns[name][link] = value
        return replace(
            network,
            up=up,
            latency_ms=columns.get("latency_ms", network.latency_ms),
            jitter_ms=columns.get("jitter_ms", network.jitter_ms),
            loss=columns.get("loss", network.loss),
            rate_bps=columns.get("rate_bps", network.rate_bps),
            queue_ms=columns.get("queue_ms", network.queue_ms),
            queue_bytes=columns.get("queue_bytes", network.queue_bytes),
            background_bps=columns.get("background_bps", network.background_bps),
        )


class Presence:
    """Who is cut off; the last word counts."""

    def __init__(self, absent: Iterable[int]) -> None:
        self.cut = set(absent)

    def after(self, change: NodesChange) -> Iterator[tuple[int, bool]]:
        """The nodes that a change of the timeline cuts off (True) or brings back (False)."""
        if change.action in _CUTS:
            yield from self.change(change.ranks, cut=_CUTS[change.action])

    def change(self, ranks: Iterable[int], *, cut: bool) -> Iterator[tuple[int, bool]]:
        for rank in ranks:
            if (rank in self.cut) is not cut:
                (self.cut.add if cut else self.cut.discard)(rank)
                yield rank, cut


_ON_LEGS = {"rate_bps", "queue_ms", "queue_bytes", "up"}
"""The legs of a shared access link have its rate and queue; everything else is on the link behind them."""
_BOUNDS = {
    "latency_ms": (0.0, MAX_LATENCY_MS),
    "jitter_ms": (0.0, MAX_LATENCY_MS),
    "loss": (0.0, 1.0),
    "rate_bps": (1.0, float(MAX_RATE_BPS)),
    "queue_ms": (0.0, MAX_LATENCY_MS),
    "queue_bytes": (0.0, float(2**50)),
    "background_bps": (0.0, float(MAX_RATE_BPS)),
}
_MAY_BE_INFINITE = {"rate_bps", "queue_ms", "queue_bytes"}


def _wanted(request: SetLink) -> dict[str, float]:
    """What a request changes; raises UsageProblem for a value that no link can have."""
    wanted: dict[str, float] = {}
    for name, (least, most) in _BOUNDS.items():
        value: float | None = getattr(request, name)
        if value is None:
            continue
        if not (least <= value <= most or (value == UNLIMITED and name in _MAY_BE_INFINITE)):
            raise UsageProblem(f"{name} is {value}: it must lie between {least:g} and {most:g}")
        wanted[name] = value
    if "queue_ms" in wanted and "queue_bytes" not in wanted:
        wanted["queue_bytes"] = UNLIMITED
    elif "queue_bytes" in wanted and "queue_ms" not in wanted:
        wanted["queue_ms"] = UNLIMITED
    if request.up is not None:
        wanted["up"] = float(request.up)
    if not wanted:
        raise UsageProblem("nothing to change", "give a latency, jitter, loss, rate, queue, or up or down")
    return wanted
