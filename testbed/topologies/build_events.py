"""Marked values → the events of a topology, and the links that events create. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.topologies.endpoints import Endpoints, LinkIndex
from testbed.topologies.entries import Report
from testbed.topologies.language import (
    EVENT_ENTRIES,
    BridgeEventEntry,
    LinkEventEntry,
    NodeEventEntry,
    PartitionEventEntry,
    TimedEntry,
)
from testbed.topologies.marked import MarkedList, MarkedMap
from testbed.topologies.model import (
    DEFAULT_NETWORK,
    DEFAULT_QUEUE,
    MAX_OCCURRENCES,
    UNCHANGED,
    UNDONE_BY,
    BridgeEvent,
    Event,
    Link,
    LinkChange,
    LinkEvent,
    LinkProperties,
    NodeAction,
    NodeEvent,
    PartitionEvent,
    When,
)
from testbed.topologies.two_way import whole_change
from testbed.units import format_duration, shown


@dataclass(frozen=True, slots=True)
class _Parsed:
    marked: MarkedMap
    entry: TimedEntry
    when: When
    place: int
    """Position in the file."""

    @property
    def moment(self) -> tuple[float, int]:
        """Sort key: events at the same time happen in the order of the file."""
        return self.when.at_s, self.place


class EventBuilder:
    """Reads the entries first, since replica counts depend on them, then resolves the names in them."""

    def __init__(self, report: Report, section: MarkedList) -> None:
        self.report = report
        self.events: list[Event] = []
        self.created: list[Link] = []
        self._network = DEFAULT_NETWORK
        self._occurrences = 0
        self._creation: dict[tuple[str, str], tuple[float, int]] = {}
        """Time and event at which undeclared links come up."""
        self._parsed = [
            parsed
            for place, (value, at) in enumerate(zip(section, section.item_at, strict=True))
            if (parsed := self._parse(value, at, place)) is not None
        ]
        self.node_events = [
            NodeEvent(parsed.when, parsed.entry.do, parsed.entry.node, parsed.entry.count)
            for parsed in self._parsed
            if isinstance(parsed.entry, NodeEventEntry)
        ]

    def _parse(self, value: object, at: int, place: int) -> _Parsed | None:
        if not isinstance(value, MarkedMap):
            self.report.error("bad-shape", "an event is a mapping of keys to values", "write {at: 5s, …}", at)
            return None
        kinds = [key for key in EVENT_ENTRIES if key in value]
        if len(kinds) != 1:
            words = ", ".join(f"`{key}`" for key in EVENT_ENTRIES)
            message = f"an event happens to one of {words}" + (": here are several" if kinds else "")
            suggestions = () if kinds else [self.report.findings.suggest(key, EVENT_ENTRIES) for key in value]
            hint = next((suggestion for suggestion in suggestions if "mean" in suggestion), "")
            self.report.error("bad-event", message, hint or "name exactly one of them", at)
            return None
        entry = self.report.entry(EVENT_ENTRIES[kinds[0]], value, at, f"a {kinds[0]} event")
        when = self._when(value, entry) if entry is not None else None
        return _Parsed(value, entry, when, place) if entry is not None and when is not None else None

    def _when(self, marked: MarkedMap, entry: TimedEntry) -> When | None:
        if entry.every is None:
            stray = "from" if entry.from_ is not None else "until" if entry.until is not None else None
            if stray is not None:
                self.report.error(
                    "bad-event", f"`{stray}` needs `every`", "add `every`, or use `at`", marked.place(stray)[0]
                )
                return None
            if entry.at is None:
                word = marked.spelled("at")
                self.report.error("missing", f"an event needs `{word}`", f"add `{word}`, when it happens", marked.at)
                return None
            return When(entry.at)
        if entry.at is not None:
            self.report.error(
                "bad-event", "`at` and `every` do not go together", "use `from` with `every`", marked.place("at")[0]
            )
            return None
        if entry.until is None:
            hint = "add `until`, when it stops"
            self.report.error("bad-event", "a repeated event needs `until`", hint, marked.place("every")[0])
            return None
        start = entry.from_ or 0.0
        if not start < entry.until:
            self.report.error("bad-event", "`until` is not after `from`", "make it later", marked.place("until")[1])
            return None
        when = When(start, entry.every, entry.until)
        self._occurrences += when.count()
        if self._occurrences > MAX_OCCURRENCES:
            message = f"repeated events would happen more than {MAX_OCCURRENCES} times in all"
            self.report.error(
                "too-many-events", message, "make `every` longer or `until` earlier", marked.place("every")[1]
            )
            return None
        return when

    def resolve(self, endpoints: Endpoints, links: list[Link], network: str) -> None:
        """Fills `events` and `created`; `network` is the default of created links."""
        self._network = network
        declared = LinkIndex(endpoints, links)
        index = LinkIndex(endpoints, links)
        creating = self._create_links(endpoints, index)
        for parsed in self._parsed:
            entry = parsed.entry
            if isinstance(entry, NodeEventEntry):
                self._node_event(parsed, entry, endpoints)
            elif parsed.place in creating:
                self.events.extend(
                    LinkEvent(
                        parsed.when, link.origin, link.dest, whole_change(link.properties), True, None, link.where
                    )
                    for link in creating[parsed.place]
                )
            elif isinstance(entry, LinkEventEntry):
                self._link_event(parsed, entry, endpoints, index, declared)
            elif isinstance(entry, BridgeEventEntry):
                self._bridge_event(parsed, entry, endpoints)
            elif isinstance(entry, PartitionEventEntry):
                self._partition(parsed, entry, endpoints)

    def _fits(self, marked: MarkedMap, key: str, allowed: bool, after: str) -> bool:
        """Whether a key that ends an event is allowed for this event; a finding if not."""
        if not allowed:
            self.report.error("bad-event", f"`{key}` goes with {after} only", f"remove `{key}`", marked.place(key)[0])
        return allowed

    def _node_event(self, parsed: _Parsed, entry: NodeEventEntry, endpoints: Endpoints) -> None:
        marked = parsed.marked
        at = marked.place("node")[1]
        known = [endpoints.known(target, marked.spelled("node"), at, bridges=False) for target in entry.node]
        if not all(known):
            return
        if not entry.node:
            self.report.error("bad-event", "`node` names nothing", "name a service, node or pattern", at)
            return
        matched = endpoints.matched(entry.node)
        if entry.count is not None and entry.count > matched:
            message = f"{marked.spelled('count')}: {entry.count} of {matched} node{'s' if matched > 1 else ''}"
            self.report.error("event-count", message, f"the most is {matched}", marked.place("count")[1])
            return
        undone = UNDONE_BY.get(entry.do)
        for key, given, fits, after in (
            ("rejoin", entry.rejoin, undone is NodeAction.JOIN, "crash and leave"),
            ("for", entry.for_, undone in (NodeAction.RESUME, NodeAction.RECONNECT), "pause and disconnect"),
        ):
            if given is not None and not self._fits(marked, key, fits, after):
                return
        if entry.rejoin is not None and self._never_reused(entry, endpoints):
            message = "none of these nodes can rejoin: their services have `reuse: false`"
            self.report.error("bad-event", message, "remove `rejoin`", marked.place("rejoin")[0])
            return
        count = None if entry.count == matched else entry.count
        for_s = entry.rejoin if entry.rejoin is not None else entry.for_
        self.events.append(NodeEvent(parsed.when, entry.do, entry.node, count, for_s, self.report.where(marked.at)))

    def _never_reused(self, entry: NodeEventEntry, endpoints: Endpoints) -> bool:
        topology = endpoints.topology
        fresh = {service.name for service in topology.services if not service.reuse}
        return bool(fresh) and all(
            topology.nodes[rank].service.name in fresh for rank in topology.select_all(entry.node)
        )

    def _link_event(
        self, parsed: _Parsed, entry: LinkEventEntry, endpoints: Endpoints, index: LinkIndex, at_start: LinkIndex
    ) -> None:
        marked = parsed.marked
        at = marked.place("link")[1]
        ends = entry.link
        listed = marked["link"]
        places = listed.item_at if isinstance(listed, MarkedList) else [at, at]
        words = [marked.spelled(end, "link") for end in ("first-end", "second-end")]
        known = [
            endpoints.known(end, word, place, bridges=True)
            for end, word, place in zip(ends, words, places, strict=True)
        ]
        if not all(known):
            return
        if entry.for_ is not None and not self._fits(marked, "for", entry.state == "down", "`state: down`"):
            return
        if entry.state is None and _change(entry, entry.up) == _change(entry, entry.down) == UNCHANGED:
            self.report.error(
                "bad-event", "the event changes nothing", "add `state`, or a property such as `latency`", marked.at
            )
            return
        if entry.one_way and entry.down is not None:
            word = marked.spelled("down")
            self.report.error(
                "bad-event", f"a one-way event has no `{word}`", f"remove `{word}`", marked.place("down")[0]
            )
            return
        directions = _directions(entry)
        declared = [direction for direction in directions if index.covers(*direction[:2])]
        meant = [entry.up is not None, entry.down is not None]
        missing = [
            direction for direction, own in zip(directions, meant, strict=False) if own and direction not in declared
        ]
        if missing or not declared:
            self._no_link(entry, (missing or directions)[0], index, at)
            return
        for origin, dest, change in declared:
            created = None if at_start.covers(origin, dest) else self._created_at(endpoints, origin, dest)
            if created is not None and parsed.moment < created:
                message = (
                    f"the link from {shown(origin)} to {shown(dest)} is created only at {format_duration(created[0])}"
                )
                self.report.error("unknown-link", message, "let this event come later", at)
                return
            if self.report.too_busy(marked, change.background_bps, change.rate_bps):
                return
        up = None if entry.state is None else entry.state == "up"
        where = self.report.where(marked.at)
        self.events.extend(
            LinkEvent(parsed.when, origin, dest, change, up, entry.for_, where)
            for origin, dest, change in declared
            if up is not None or change != UNCHANGED
        )

    def _created_at(self, endpoints: Endpoints, origin: str, dest: str) -> tuple[float, int] | None:
        """When the first link that events create between the two ends comes up."""
        if (origin, dest) in self._creation:
            return self._creation[origin, dest]
        origins, dests = endpoints.members(origin), endpoints.members(dest)
        moments = (
            moment
            for (start, end), moment in self._creation.items()
            if not origins.isdisjoint(endpoints.members(start)) and not dests.isdisjoint(endpoints.members(end))
        )
        return min(moments, default=None)

    def _no_link(
        self, entry: LinkEventEntry, direction: tuple[str, str, LinkChange], index: LinkIndex, at: int
    ) -> None:
        origin, dest, change = direction
        message = f"there is no link from {shown(origin)} to {shown(dest)}"
        hint = "name the two ends of a declared link, or create one: `state: up`, with `latency` and `rate`"
        if entry.state == "up" and change != UNCHANGED:
            hint = "to create it, both `latency` and a rate are needed"
        elif index.covers(dest, origin):
            hint = f"there is only one from {shown(dest)} to {shown(origin)}"
        self.report.error("unknown-link", message, hint, at)

    def _create_links(self, endpoints: Endpoints, index: LinkIndex) -> dict[int, list[Link]]:
        """Creates undeclared links that events bring up, with the properties given by the earliest such event."""
        creating: dict[int, list[Link]] = {}
        for parsed in sorted(self._parsed, key=lambda parsed: parsed.moment):
            entry = parsed.entry
            if not isinstance(entry, LinkEventEntry) or entry.state != "up":
                continue
            first, second = entry.link
            if not all(endpoints.members(end) for end in entry.link):
                continue  # `resolve` reports it
            if not endpoints.members(first).isdisjoint(endpoints.members(second)):
                continue
            wanted = _directions(entry)
            if any(index.covers(origin, dest) for origin, dest, _change_ in wanted):
                continue
            links = [self._created_link(parsed, entry, *direction) for direction in wanted]
            made = [link for link in links if link is not None]
            if len(made) == len(links):
                creating[parsed.place] = made
                self.created.extend(made)
                for link in made:
                    index.add(link)
                    self._creation[link.origin, link.dest] = parsed.moment
        return creating

    def _created_link(
        self, parsed: _Parsed, entry: LinkEventEntry, origin: str, dest: str, change: LinkChange
    ) -> Link | None:
        if change.latency_ms is None or change.rate_bps is None:
            return None
        self.report.too_busy(parsed.marked, change.background_bps, change.rate_bps)
        properties = LinkProperties(
            change.latency_ms,
            change.rate_bps,
            change.jitter_ms or 0.0,
            change.loss or 0.0,
            change.queue or DEFAULT_QUEUE,
            change.background_bps or 0.0,
        )
        network = entry.network or self._network
        where = self.report.where(parsed.marked.at)
        return Link(origin, dest, properties, starts_down=True, network=network, where=where)

    def _bridge_event(self, parsed: _Parsed, entry: BridgeEventEntry, endpoints: Endpoints) -> None:
        marked = parsed.marked
        if entry.bridge not in endpoints.topology.bridge_names:
            hint = self.report.findings.suggest(entry.bridge, endpoints.topology.bridge_names)
            self.report.error(
                "unknown-name", f"there is no bridge {shown(entry.bridge)}", hint, marked.place("bridge")[1]
            )
            return
        if entry.for_ is not None and not self._fits(marked, "for", entry.state == "down", "`state: down`"):
            return
        where = self.report.where(marked.at)
        self.events.append(BridgeEvent(parsed.when, entry.bridge, entry.state == "up", entry.for_, where))

    def _partition(self, parsed: _Parsed, entry: PartitionEventEntry, endpoints: Endpoints) -> None:
        marked = parsed.marked
        at = marked.place("partition")[1]
        names = [name for group in entry.partition for name in group]
        known = [endpoints.known(name, "partition", at, bridges=False) for name in names]
        if not all(known):
            return
        seen: set[int] = set()
        for group in entry.partition:
            ranks = endpoints.topology.select_all(group)
            if not ranks or not seen.isdisjoint(ranks):
                message = "a group is empty" if not ranks else "a node is in two groups"
                self.report.error("bad-event", message, "every group needs nodes of its own", at)
                return
            seen.update(ranks)
        where = self.report.where(marked.at)
        self.events.append(PartitionEvent(parsed.when, entry.partition, entry.for_, where))


def _directions(entry: LinkEventEntry) -> list[tuple[str, str, LinkChange]]:
    """The change of each direction that the event concerns."""
    first, second = entry.link
    there = (first, second, _change(entry, entry.up))
    return [there] if entry.one_way else [there, (second, first, _change(entry, entry.down))]


def _change(entry: LinkEventEntry, directed_rate: float | None) -> LinkChange:
    rate = directed_rate if directed_rate is not None else entry.rate
    return LinkChange(entry.latency, rate, entry.jitter, entry.loss, entry.queue, entry.background)
