"""Groups a topology for a picture: equal nodes together, both directions of a link as one tie, groups at their bridge.

Takes a `Topology`, gives an `Anatomy`; touches nothing. A supervisor and its links are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from testbed.topologies.model import (
    BridgeEvent,
    Link,
    LinkEvent,
    LinkProperties,
    Node,
    NodeAction,
    NodeEvent,
    Service,
    Topology,
)


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of one service whose links are the same."""

    service: Service
    nodes: tuple[Node, ...]

    @property
    def name(self) -> str:
        """The service, or the node when the group is only a part of its service and has one node."""
        if len(self.nodes) == 1 and self.service.replicas > 1:
            return self.nodes[0].name
        return self.service.name

    @property
    def title(self) -> str:
        return self.name if len(self.nodes) == 1 else f"{self.name} ×{len(self.nodes)}"


@dataclass(frozen=True, slots=True)
class Lane:
    """One direction of a tie. Equal links between the members of two groups are one lane."""

    properties: LinkProperties
    starts_down: bool = False
    origin_shared: bool = False
    dest_shared: bool = False
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Tie:
    """Everything between two places, `first` < `second`; an empty side makes it one-way.

    Of parallel links each side has the one that routing takes first: a picture is drawn after that one.
    """

    first: int
    second: int
    forward: tuple[Lane, ...]
    backward: tuple[Lane, ...]

    @property
    def lanes(self) -> tuple[Lane, ...]:
        return self.forward + self.backward

    @property
    def leading(self) -> tuple[Lane, ...]:
        """The lane of each direction that stands for its parallel ones."""
        return self.forward[:1] + self.backward[:1]

    @property
    def parallel(self) -> bool:
        return len(self.forward) > 1 or len(self.backward) > 1

    @property
    def one_way(self) -> bool:
        return not self.forward or not self.backward

    @property
    def symmetric(self) -> bool:
        return {lane.properties for lane in self.forward} == {lane.properties for lane in self.backward}

    @property
    def unsteady(self) -> bool:
        """It starts down, or an event changes it."""
        return any(lane.starts_down or lane.changes for lane in self.lanes)

    def lanes_from(self, place: int) -> tuple[Lane, ...]:
        return self.forward if place == self.first else self.backward

    def shared_at(self, place: int) -> bool:
        """Whether the nodes of that end stand behind one access link."""
        outward, inward = (self.forward, self.backward) if place == self.first else (self.backward, self.forward)
        return any(lane.origin_shared for lane in outward) or any(lane.dest_shared for lane in inward)

    def other(self, place: int) -> int:
        return self.second if place == self.first else self.first


@dataclass(frozen=True)
class Anatomy:
    """The parts of a picture. A *place* is a bridge (its index) or a group (its index after all bridges)."""

    bridges: tuple[str, ...]
    groups: tuple[Group, ...]
    ties: tuple[Tie, ...]
    inner: dict[int, tuple[Lane, ...]]
    """Links among the nodes of one group, by place."""
    eventful_ranks: frozenset[int]
    eventful_bridges: frozenset[str]
    directed_links: int
    supervisors: tuple[str, ...]

    def is_bridge(self, place: int) -> bool:
        return place < len(self.bridges)

    def group(self, place: int) -> Group:
        return self.groups[place - len(self.bridges)]

    def name(self, place: int) -> str:
        return self.bridges[place] if self.is_bridge(place) else self.group(place).title

    @property
    def places(self) -> range:
        return range(len(self.bridges) + len(self.groups))

    @cached_property
    def ties_of(self) -> dict[int, tuple[Tie, ...]]:
        """The ties at each place."""
        found: dict[int, list[Tie]] = {place: [] for place in self.places}
        for tie in self.ties:
            found[tie.first].append(tie)
            found[tie.second].append(tie)
        return {place: tuple(ties) for place, ties in found.items()}

    @cached_property
    def home(self) -> dict[int, int]:
        """The bridge beside which a group is drawn, for every group that is linked to this one bridge alone."""
        homes: dict[int, int] = {}
        for place in self.places[len(self.bridges) :]:
            ties = self.ties_of[place]
            if len(ties) == 1 and self.is_bridge(ties[0].other(place)):
                homes[place] = ties[0].other(place)
        return homes

    @cached_property
    def residents(self) -> dict[int, tuple[int, ...]]:
        """The groups drawn beside each bridge."""
        found: dict[int, list[int]] = defaultdict(list)
        for place, bridge in self.home.items():
            found[bridge].append(place)
        return {bridge: tuple(places) for bridge, places in found.items()}

    @cached_property
    def backbone(self) -> tuple[Tie, ...]:
        """The ties between places that stand on their own."""
        return tuple(tie for tie in self.ties if tie.first not in self.home and tie.second not in self.home)

    @cached_property
    def access(self) -> tuple[Tie, ...]:
        """The ties between a group and the bridge it is drawn beside."""
        return tuple(tie for tie in self.ties if tie.first in self.home or tie.second in self.home)

    @cached_property
    def pieces(self) -> int:
        """How many parts there are that no link connects."""
        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from(self.places)
        graph.add_edges_from((tie.first, tie.second) for tie in self.ties)
        return nx.number_connected_components(graph)

    @property
    def backbone_is_flat(self) -> bool:
        """Whether every backbone link has the same latency."""
        return len({lane.properties.latency_ms for tie in self.backbone for lane in tie.leading}) < 2


def anatomy(topology: Topology, apart: bool = False) -> Anatomy:
    """The parts of a topology's picture; `apart` keeps every node in a group of its own."""
    bridges = tuple(bridge.name for bridge in topology.bridges)
    groups = _groups(topology, apart)
    place_of_bridge = {name: place for place, name in enumerate(bridges)}
    place_of_rank = {node.rank: len(bridges) + index for index, group in enumerate(groups) for node in group.nodes}
    reach: dict[str, tuple[int, ...]] = {}

    def places(endpoint: str) -> tuple[int, ...]:
        if endpoint not in reach:
            if endpoint in place_of_bridge:
                reach[endpoint] = (place_of_bridge[endpoint],)
            else:
                reach[endpoint] = tuple(sorted({place_of_rank[rank] for rank in topology.select(endpoint)}))
        return reach[endpoint]

    changing = {
        (origin, dest)
        for event in topology.events
        if isinstance(event, LinkEvent)
        for origin in places(event.origin)
        for dest in places(event.dest)
    }
    found: dict[tuple[int, int], dict[Lane, None]] = defaultdict(dict)
    for link in topology.links:
        steady, changed = (_lane(topology, link, changes) for changes in (False, True))
        for origin in places(link.origin):
            for dest in places(link.dest):
                found[origin, dest][changed if (origin, dest) in changing else steady] = None
    lanes = {pair: tuple(sorted(kinds, key=_precedence)) for pair, kinds in found.items()}
    pairs = sorted({(min(pair), max(pair)) for pair in lanes if pair[0] != pair[1]})
    return Anatomy(
        bridges=bridges,
        groups=groups,
        ties=tuple(Tie(a, b, lanes.get((a, b), ()), lanes.get((b, a), ())) for a, b in pairs),
        inner={
            pair[0]: kinds
            for pair, kinds in lanes.items()
            if pair[0] == pair[1] and pair[0] >= len(bridges) and len(groups[pair[0] - len(bridges)].nodes) > 1
        },
        eventful_ranks=frozenset(
            topology.select_all(
                [
                    selector
                    for event in topology.events
                    if isinstance(event, NodeEvent) and not _starts(event)
                    for selector in event.targets
                ]
            )
        ),
        eventful_bridges=frozenset(event.bridge for event in topology.events if isinstance(event, BridgeEvent)),
        directed_links=sum(_expanded(topology, link) for link in topology.links),
        supervisors=tuple(service.name for service in topology.services if service.supervisor),
    )


def _precedence(lane: Lane) -> tuple[bool, float, float]:
    """Parallel links as routing sees them: those that are up, then the lower latency, then the higher rate."""
    return lane.starts_down, lane.properties.latency_ms, -lane.properties.rate_bps


def _starts(event: NodeEvent) -> bool:
    """Whether it only says that nodes are there from the beginning, as files for Kollaps must."""
    return event.action is NodeAction.JOIN and event.when.at_s == 0 and event.when.every_s is None


def _lane(topology: Topology, link: Link, changes: bool) -> Lane:
    return Lane(
        link.properties,
        link.starts_down,
        link.origin_shared and _several(topology, link.origin),
        link.dest_shared and _several(topology, link.dest),
        changes,
    )


def _several(topology: Topology, endpoint: str) -> bool:
    """Whether an endpoint has several nodes: a link of a single node cannot be shared."""
    return endpoint not in topology.bridge_names and len(topology.select(endpoint)) > 1


def _groups(topology: Topology, apart: bool) -> tuple[Group, ...]:
    """Nodes of one service with equal links, in the order of their first ranks."""
    if apart:
        return tuple(Group(node.service, (node,)) for node in topology.nodes)
    marks: dict[int, list[tuple[object, ...]]] = defaultdict(list)
    numbers: dict[LinkProperties, int] = {}
    for index, link in enumerate(topology.links):
        number = numbers.setdefault(link.properties, len(numbers))
        for side, end, other, shared in (
            ("from", link.origin, link.dest, link.origin_shared),
            ("to", link.dest, link.origin, link.dest_shared),
        ):
            if end in topology.bridge_names:
                continue
            ranks = topology.select(end)
            # Two services behind different shared access links are different places.
            together = index if shared and len(ranks) > 1 else -1
            mark = (side, other, number, link.starts_down, link.network, together)
            for rank in ranks:
                marks[rank].append(mark)
    members: dict[tuple[object, ...], list[Node]] = defaultdict(list)
    for node in topology.nodes:
        members[node.service.name, tuple(marks[node.rank])].append(node)
    return tuple(Group(nodes[0].service, tuple(nodes)) for nodes in members.values())


def _expanded(topology: Topology, link: Link) -> int:
    """How many directed links one entry of the file stands for, the legs of a shared access link among them."""

    def ends(endpoint: str) -> Sequence[int]:
        return (-1,) if endpoint in topology.bridge_names else topology.select(endpoint)

    origins, dests = ends(link.origin), ends(link.dest)
    if not origins or not dests:
        return 0
    legs = 0
    if link.origin_shared and len(origins) > 1:
        legs, origins = legs + len(origins), (-2,)
    if link.dest_shared and len(dests) > 1:
        legs, dests = legs + len(dests), (-2,)
    to_themselves = len({rank for rank in origins if rank >= 0} & set(dests))
    return legs + len(origins) * len(dests) - to_themselves
