"""The topology model, independent of the file format.

Pure data, frozen. Everything is directed and in one unit: a two-way link of a file is two `Link`s here, a change in
both directions two `LinkEvent`s, so that XML, YAML and the network models cannot disagree about directions. `where` is
the place in the file, for findings; it is ignored by equality.

Names: replica i of service s is the node `s.i`; a node's rank is its 0-based position in document order.
A supervisor (Kollaps' dashboard) is kept but is not a node.

A *selector* names nodes: a service (all its replicas), a node (`site-a.2`) or a pattern (`site-b.*`, `*`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property

from testbed.errors import Where

DEFAULT_IMAGE = "testbed-node:latest"
BUILT_IMAGE = "testbed:latest"
"""The default image of `testbed build`."""
DEFAULT_BOOT = "kollaps:2.0"
DEFAULT_NETWORK = "kollaps_network"
DEFAULT_POOL_PERIOD_S = 0.05
DEFAULT_MAX_AGE = 2

MAX_NODES = 100_000
MAX_DIRECTED_LINKS = 2_000_000
MAX_OCCURRENCES = 100_000
"""Bound of all occurrences of a file's repeated events together."""


class Routing(StrEnum):
    """The measure by which paths are shortest."""

    HOPS = "hops"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """Size of a link's queue: a time at the link's rate, or bytes."""

    ms: float | None = None
    size_bytes: int | None = None


DEFAULT_QUEUE = QueueLimit(ms=250.0)


@dataclass(frozen=True, slots=True)
class LinkProperties:
    """One direction of a link. `latency_ms` is one-way; `jitter_ms` is a standard deviation; `loss` a fraction."""

    latency_ms: float
    rate_bps: float
    jitter_ms: float = 0.0
    loss: float = 0.0
    queue: QueueLimit = DEFAULT_QUEUE
    background_bps: float = 0.0


@dataclass(frozen=True, slots=True)
class LinkChange:
    """A change of one direction of a link; None leaves a property as it is."""

    latency_ms: float | None = None
    rate_bps: float | None = None
    jitter_ms: float | None = None
    loss: float | None = None
    queue: QueueLimit | None = None
    background_bps: float | None = None


UNCHANGED = LinkChange()


@dataclass(frozen=True, slots=True)
class Service:
    """A group of equal nodes, or the supervisor."""

    name: str
    image: str = DEFAULT_IMAGE
    command: tuple[str, ...] = ()
    replicas: int = 1
    reuse: bool = True
    supervisor: bool = False
    port: int | None = None
    active_paths: tuple[str, ...] = ()
    cpus: float | None = None
    memory_bytes: int | None = None
    speed: float = 1.0
    where: Where | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Bridge:
    name: str
    where: Where | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a link between two endpoints, each the name of a bridge or a selector of nodes.

    An endpoint of several nodes gives every one a link of its own, unless that side is shared: then all its nodes
    stand behind one access link. `starts_down` is a link that only an event brings up.
    """

    origin: str
    dest: str
    properties: LinkProperties
    origin_shared: bool = False
    dest_shared: bool = False
    starts_down: bool = False
    network: str = DEFAULT_NETWORK
    where: Where | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class When:
    """Once at `at_s`, or every `every_s` from `at_s` on, before `until_s`. Seconds of emulated time."""

    at_s: float
    every_s: float | None = None
    until_s: float | None = None

    def _nanoseconds(self) -> range:
        """Occurrences in whole nanoseconds: sums of decimal fractions would miss `until` by rounding."""
        start, every, until = (round(time * 1e9) for time in (self.at_s, self.every_s or 0.0, self.until_s or 0.0))
        return range(start, until, max(every, 1))

    def count(self) -> int:
        """Number of occurrences."""
        return 1 if self.every_s is None else len(self._nanoseconds())

    def times(self) -> Iterator[float]:
        """Times of all occurrences, the last one before `until_s`."""
        if self.every_s is None:
            return iter((self.at_s,))
        return (nanoseconds / 1e9 for nanoseconds in self._nanoseconds())


def later(at_s: float, for_s: float) -> float:
    """`at_s` + `for_s`, rounded so that it equals the same time written in a file."""
    return round(at_s + for_s, 9)


class NodeAction(StrEnum):
    JOIN = "join"
    LEAVE = "leave"
    CRASH = "crash"
    PAUSE = "pause"
    RESUME = "resume"
    DISCONNECT = "disconnect"
    RECONNECT = "reconnect"


UNDONE_BY = {
    NodeAction.LEAVE: NodeAction.JOIN,
    NodeAction.CRASH: NodeAction.JOIN,
    NodeAction.PAUSE: NodeAction.RESUME,
    NodeAction.DISCONNECT: NodeAction.RECONNECT,
}
"""The action that ends a lasting action."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """An action on nodes: on all that `targets` select, or on `count` of them. After `for_s` it is undone."""

    when: When
    action: NodeAction
    targets: tuple[str, ...]
    count: int | None = None
    for_s: float | None = None
    where: Where | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """One direction of a link changes, goes down or comes up. After `for_s` a downed link comes up again."""

    when: When
    origin: str
    dest: str
    change: LinkChange = UNCHANGED
    up: bool | None = None
    for_s: float | None = None
    where: Where | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BridgeEvent:
    """A bridge goes down or comes up with all its links."""

    when: When
    bridge: str
    up: bool
    for_s: float | None = None
    where: Where | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PartitionEvent:
    """Nodes of different groups cannot reach each other for `for_s` (None: to the end)."""

    when: When
    groups: tuple[tuple[str, ...], ...]
    for_s: float | None = None
    where: Where | None = field(default=None, compare=False, repr=False)


Event = NodeEvent | LinkEvent | BridgeEvent | PartitionEvent


@dataclass(frozen=True, slots=True)
class KollapsSettings:
    """Settings that only Kollaps reads."""

    boot: str = DEFAULT_BOOT
    pool_period_s: float = DEFAULT_POOL_PERIOD_S
    max_age: int = DEFAULT_MAX_AGE


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the network, where a learner runs."""

    rank: int
    name: str
    service: Service
    replica: int


def is_pattern(selector: str) -> bool:
    """Whether a selector is a pattern to match against all nodes; names contain no pattern characters."""
    return any(char in selector for char in "*?[")


@dataclass(frozen=True)
class Topology:
    """A complete topology. Links that start down come last; everything else is in document order."""

    name: str
    services: tuple[Service, ...]
    links: tuple[Link, ...]
    bridges: tuple[Bridge, ...] = ()
    events: tuple[Event, ...] = ()
    routing: Routing = Routing.HOPS
    kollaps: KollapsSettings = KollapsSettings()

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node, by rank."""
        expanded: list[Node] = []
        for service in self.services:
            if not service.supervisor:
                first = len(expanded)
                expanded.extend(
                    Node(first + replica, f"{service.name}.{replica}", service, replica)
                    for replica in range(service.replicas)
                )
        return tuple(expanded)

    @cached_property
    def ranks(self) -> dict[str, int]:
        """Rank by node name."""
        return {node.name: node.rank for node in self.nodes}

    @cached_property
    def _ranks_by_service(self) -> dict[str, range]:
        first = (node for node in self.nodes if node.replica == 0)
        return {node.service.name: range(node.rank, node.rank + node.service.replicas) for node in first}

    @cached_property
    def _ranks_by_pattern(self) -> dict[str, tuple[int, ...]]:
        return {}

    def select(self, selector: str) -> range | tuple[int, ...]:
        """Ranks that a selector matches, ascending."""
        if selector in self._ranks_by_service:
            return self._ranks_by_service[selector]
        if selector in self.ranks:
            return (self.ranks[selector],)
        if is_pattern(selector):
            found = self._ranks_by_pattern.get(selector)
            if found is None:
                found = tuple(node.rank for node in self.nodes if fnmatchcase(node.name, selector))
                self._ranks_by_pattern[selector] = found
            return found
        return ()

    def select_all(self, selectors: Iterable[str]) -> Sequence[int]:
        """Ranks that any of the selectors matches, ascending."""
        several = tuple(selectors)
        if len(several) == 1:
            return self.select(several[0])
        return tuple(sorted({rank for selector in several for rank in self.select(selector)}))

    @cached_property
    def bridge_names(self) -> frozenset[str]:
        return frozenset(bridge.name for bridge in self.bridges)
