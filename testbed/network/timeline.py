"""The timeline: all events of a topology as single changes in order of time.

Takes a `Topology` and a seed, gives changes; touches nothing. Repetitions are expanded, selectors resolved, nodes of
events with a count drawn, and the end of a lasting event is a change of its own. The same seed gives the same timeline
on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush

from testbed.seeds import stream
from testbed.topologies.event_checks import nodes_followed, starting_absent
from testbed.topologies.model import (
    UNCHANGED,
    UNDONE_BY,
    BridgeEvent,
    Event,
    LinkChange,
    LinkEvent,
    NodeAction,
    NodeEvent,
    PartitionEvent,
    Topology,
    later,
)


@dataclass(frozen=True, slots=True)
class NodesChange:
    """An action on some nodes."""

    at_s: float
    action: NodeAction
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LinksChange:
    """The links from one endpoint to another change, go down (`up` is False) or come up (True)."""

    at_s: float
    origin: str
    dest: str
    change: LinkChange
    up: bool | None
    cause: int = 0
    """Number of the event: its end concerns only links that this event took down last."""
    is_ending: bool = False


@dataclass(frozen=True, slots=True)
class BridgeChange:
    at_s: float
    bridge: str
    up: bool


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """The partition with this number begins or ends."""

    at_s: float
    number: int
    groups: tuple[tuple[int, ...], ...]
    begins: bool


_MOST_FOLLOWED = 200_000
"""Bound of nodes visited to find events without effect."""

Change = NodesChange | LinksChange | BridgeChange | PartitionChange


def timeline(topology: Topology, seed: int, until_s: float = float("inf")) -> Iterator[Change]:
    """All changes up to and including a time; at the same time in document order, ends first."""
    director = _Director(topology, seed)
    while director.agenda and director.agenda[0].at_s <= until_s:
        yield from heappop(director.agenda).happen()


class Timeline:
    """All changes of one run, each worked out once, however many read them."""

    def __init__(self, topology: Topology, seed: int, until_s: float = float("inf")) -> None:
        self._coming = timeline(topology, seed, until_s)
        self._known: list[Change] = []

    def __iter__(self) -> Iterator[Change]:
        """From the first change on; every iterator has its own place."""
        place = 0
        while place < len(self._known) or self._work_one_out():
            yield self._known[place]
            place += 1

    def of_nodes(self) -> Iterator[NodesChange]:
        """Those that happen to nodes; all others happen to the network."""
        return (change for change in self if isinstance(change, NodesChange))

    def _work_one_out(self) -> bool:
        change = next(self._coming, None)
        if change is not None:
            self._known.append(change)
        return change is not None


def events_without_effect(topology: Topology) -> list[Event]:
    """Events that find nothing to do, at least once: a crash of a node that is gone, a link that is down going down.

    Empty where that depends on the seed, or would take too long to find out.
    """
    nodes = [event for event in topology.events if isinstance(event, NodeEvent)]
    if any(event.count is not None for event in nodes) or nodes_followed(topology, nodes) > _MOST_FOLLOWED:
        return []
    director = _Director(topology, seed=0)
    while director.agenda:
        for _change in heappop(director.agenda).happen():
            pass
    return list({event.where or id(event): event for event in director.idle}.values())


@dataclass(order=True, slots=True)
class _Entry:
    at_s: float
    rank: int
    """-1 for ends, otherwise the event's position in the file."""
    order: int
    happen: Callable[[], Iterable[Change]] = field(compare=False)


class _Director:
    """Tracks the state of nodes and links and the event that caused it: an end undoes only its own event."""

    def __init__(self, topology: Topology, seed: int) -> None:
        self.topology = topology
        self.seed = seed
        self.agenda: list[_Entry] = []
        self.order = 0
        absent = starting_absent(topology)
        self.present = set(range(len(topology.nodes))) - absent
        self.ever_present = set(self.present)
        self.paused: set[int] = set()
        self.disconnected: set[int] = set()
        self.cause: dict[object, int] = {}
        self.is_up: dict[object, bool] = {
            (link.origin, link.dest): False for link in topology.links if link.starts_down
        }
        self.idle: list[Event] = []
        for place, event in enumerate(topology.events):
            for occurrence, at_s in enumerate(event.when.times()):
                self.schedule(at_s, place, self.occurrence(event, place, occurrence, at_s))

    def schedule(self, at_s: float, rank: int, happen: Callable[[], Iterable[Change]]) -> None:
        self.order += 1
        heappush(self.agenda, _Entry(at_s, rank, self.order, happen))

    def occurrence(self, event: Event, place: int, occurrence: int, at_s: float) -> Callable[[], Iterable[Change]]:
        if isinstance(event, NodeEvent):
            return lambda: self.nodes(event, f"{place}.{occurrence}", at_s)
        if isinstance(event, LinkEvent):
            return lambda: self.links(event, at_s)
        if isinstance(event, BridgeEvent):
            return lambda: self.bridge(event, at_s)
        return lambda: self.partition(event, at_s)

    def eligible(self, action: NodeAction, ranks: Iterable[int]) -> list[int]:
        """Ranks that the action applies to: for example, an absent node cannot leave."""
        present = self.present
        match action:
            case NodeAction.JOIN:
                return [
                    rank
                    for rank in ranks
                    if rank not in present
                    and (self.topology.nodes[rank].service.reuse or rank not in self.ever_present)
                ]
            case NodeAction.LEAVE | NodeAction.CRASH:
                return [rank for rank in ranks if rank in present]
            case NodeAction.PAUSE:
                return [rank for rank in ranks if rank in present and rank not in self.paused]
            case NodeAction.RESUME:
                return [rank for rank in ranks if rank in self.paused]
            case NodeAction.DISCONNECT:
                return [rank for rank in ranks if rank in present and rank not in self.disconnected]
            case NodeAction.RECONNECT:
                return [rank for rank in ranks if rank in self.disconnected]

    def nodes(self, event: NodeEvent, name: str, at_s: float) -> Iterator[Change]:
        ranks = self.eligible(event.action, self.topology.select_all(event.targets))
        if event.count is not None and event.count < len(ranks):
            ranks = sorted(stream(self.seed, "events", name).sample(ranks, event.count))
        if not ranks:
            self.idle.append(event)
            return
        yield self.act(event.action, tuple(ranks), at_s)
        undo = UNDONE_BY.get(event.action)
        if event.for_s is not None and undo is not None:
            self.order += 1
            cause, end_s = self.order, later(at_s, event.for_s)
            for rank in ranks:
                self.cause[event.action, rank] = cause
            self.schedule(end_s, -1, lambda: self.undo_nodes(event.action, undo, ranks, cause, end_s))

    def undo_nodes(
        self, action: NodeAction, undo: NodeAction, ranks: Iterable[int], cause: int, at_s: float
    ) -> Iterator[Change]:
        mine = [rank for rank in self.eligible(undo, ranks) if self.cause.get((action, rank)) == cause]
        if mine:
            yield self.act(undo, tuple(mine), at_s)

    def act(self, action: NodeAction, ranks: tuple[int, ...], at_s: float) -> NodesChange:
        match action:
            case NodeAction.JOIN:
                self.present.update(ranks)
                self.ever_present.update(ranks)
            case NodeAction.LEAVE | NodeAction.CRASH:
                for state in (self.present, self.paused, self.disconnected):
                    state.difference_update(ranks)
            case NodeAction.PAUSE:
                self.paused.update(ranks)
            case NodeAction.RESUME:
                self.paused.difference_update(ranks)
            case NodeAction.DISCONNECT:
                self.disconnected.update(ranks)
            case NodeAction.RECONNECT:
                self.disconnected.difference_update(ranks)
        gone = (NodeAction.LEAVE, NodeAction.CRASH)
        for voided in gone if action is NodeAction.JOIN or action in gone else (action,):
            for rank in ranks:
                self.cause.pop((voided, rank), None)
        return NodesChange(at_s, action, ranks)

    def links(self, event: LinkEvent, at_s: float) -> Iterator[Change]:
        ends = (event.origin, event.dest)
        self.order += 1
        yield LinksChange(at_s, *ends, event.change, event.up, self.order)
        raised = LinksChange(
            later(at_s, event.for_s or 0.0), *ends, UNCHANGED, up=True, cause=self.order, is_ending=True
        )
        self.switch(event, ends, raised, is_new=event.change != UNCHANGED or ends in self.ambiguous)

    def bridge(self, event: BridgeEvent, at_s: float) -> Iterator[Change]:
        self.order += 1
        yield BridgeChange(at_s, event.bridge, event.up)
        raised = BridgeChange(later(at_s, event.for_s or 0.0), event.bridge, up=True)
        self.switch(event, event.bridge, raised, is_new=False)

    def switch(
        self, event: LinkEvent | BridgeEvent, what: object, raised: LinksChange | BridgeChange, *, is_new: bool
    ) -> None:
        """Takes a link or bridge up or down; `raised` is the change that ends a temporary failure."""
        if event.up is None:
            return
        if self.is_up.get(what, True) is event.up and not is_new:
            self.idle.append(event)
        self.is_up[what] = event.up
        self.cause[what] = cause = self.order
        if not event.up and event.for_s is not None:
            self.schedule(raised.at_s, -1, lambda: self.raise_again(what, cause, raised))

    def raise_again(self, what: object, cause: int, raised: Change) -> Iterator[Change]:
        if self.cause[what] == cause:
            self.is_up[what] = True
            yield raised

    @cached_property
    def ambiguous(self) -> frozenset[tuple[str, str]]:
        """Ends of link events that may overlap under different names: all of them, once any names single nodes."""
        topology = self.topology
        events = {(event.origin, event.dest) for event in topology.events if isinstance(event, LinkEvent)}
        whole = {service.name for service in topology.services} | topology.bridge_names
        if all(origin in whole and dest in whole for origin, dest in events):
            return frozenset()
        return frozenset(events)

    def partition(self, event: PartitionEvent, at_s: float) -> Iterator[Change]:
        self.order += 1
        number = self.order
        groups = tuple(tuple(self.topology.select_all(group)) for group in event.groups)
        yield PartitionChange(at_s, number, groups, begins=True)
        if event.for_s is not None:
            end = PartitionChange(later(at_s, event.for_s), number, groups, begins=False)
            self.schedule(end.at_s, -1, lambda: [end])
