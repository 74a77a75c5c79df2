"""Marked values → the events of a topology, and the links that events create. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.errors import did_you_mean
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
from testbed.topologies.marked import MarkedList, MarkedMap, rate_word
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
from testbed.units import shown


@dataclass(frozen=True, slots=True)
class _Parsed:
    marked: MarkedMap
    entry: TimedEntry
    when: When


class EventBuilder:
    """First reads the entries (replica counts depend on them), then resolves what they name."""

    def __init__(self, report: Report, section: MarkedList) -> None:
        self.report = report
        self.events: list[Event] = []
        self.created: list[Link] = []
        self._network = DEFAULT_NETWORK
        self._occurrences = 0
        self._parsed = [
            parsed
            for value, at in zip(section, section.item_at, strict=True)
            if (parsed := self._parse(value, at)) is not None
        ]
        self.node_events = [
            NodeEvent(parsed.when, parsed.entry.do, parsed.entry.node, parsed.entry.count)
            for parsed in self._parsed
            if isinstance(parsed.entry, NodeEventEntry)
        ]

    def _parse(self, value: object, at: int) -> _Parsed | None:
        if not isinstance(value, MarkedMap):
            self.report.error("bad-shape", "an event is a mapping of keys to values", "write {at: 5s, …}", at)
            return None
        kinds = [key for key in EVENT_ENTRIES if key in value]
        if len(kinds) != 1:
            words = ", ".join(f"`{key}`" for key in EVENT_ENTRIES)
            message = f"an event happens to one of {words}" + (": here are several" if kinds else "")
            hint = (
                ""
                if kinds
                else next((hint for key in value if "mean" in (hint := did_you_mean(key, EVENT_ENTRIES))), "")
            )
            self.report.error("bad-event", message, hint or "name exactly one of them", at)
            return None
        entry = self.report.entry(EVENT_ENTRIES[kinds[0]], value, at, f"a {kinds[0]} event")
        when = self._when(value, entry) if entry is not None else None
        return _Parsed(value, entry, when) if entry is not None and when is not None else None

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
        if entry.until is None or entry.every == 0:
            message, hint = "a repeated event needs `until`", "add `until`, when it stops"
            if entry.until is not None:
                message, hint = "`every` must be more than 0", "write how long it takes from one time to the next"
            self.report.error("bad-event", message, hint, marked.place("every")[0])
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
        """Fill `events` and `created`; `network` is what a created link has unless its event says otherwise."""
        self._network = network
        index = LinkIndex(endpoints, links)
        for parsed in self._parsed:
            entry = parsed.entry
            if isinstance(entry, NodeEventEntry):
                self._node_event(parsed, entry, endpoints)
            elif isinstance(entry, LinkEventEntry):
                self._link_event(parsed, entry, endpoints, index)
            elif isinstance(entry, BridgeEventEntry):
                self._bridge_event(parsed, entry, endpoints)
            elif isinstance(entry, PartitionEventEntry):
                self._partition(parsed, entry, endpoints)

    def _undo(self, marked: MarkedMap, key: str, allowed: bool, after: str) -> bool:
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
        matched = len(endpoints.topology.select_all(entry.node))
        if entry.count is not None and entry.count > matched:
            message = f"{marked.spelled('count')}: {entry.count} of {matched} node{'s' if matched > 1 else ''}"
            self.report.error("event-count", message, f"the most is {matched}", marked.place("count")[1])
            return
        undone = UNDONE_BY.get(entry.do)
        rejoins = self._undo(marked, "rejoin", undone is NodeAction.JOIN, "crash and leave") if entry.rejoin else True
        lasts = (
            self._undo(marked, "for", undone in (NodeAction.RESUME, NodeAction.RECONNECT), "pause and disconnect")
            if entry.for_
            else True
        )
        if rejoins and lasts:
            count = None if entry.count == matched else entry.count
            where = self.report.where(marked.at)
            self.events.append(NodeEvent(parsed.when, entry.do, entry.node, count, entry.rejoin or entry.for_, where))

    def _link_event(self, parsed: _Parsed, entry: LinkEventEntry, endpoints: Endpoints, index: LinkIndex) -> None:
        marked = parsed.marked
        at = marked.place("link")[1]
        ends = entry.link
        known = [endpoints.known(end, "link", at, bridges=True) for end in ends]
        if not all(known):
            return
        if entry.for_ is not None and not self._undo(marked, "for", entry.state == "down", "`state: down`"):
            return
        changes = (_change(entry, entry.up), _change(entry, entry.down))
        if entry.state is None and changes == (UNCHANGED, UNCHANGED):
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
        directions = [(ends[0], ends[1], changes[0]), (ends[1], ends[0], changes[1])][: 1 if entry.one_way else 2]
        declared = [covered for covered in directions if index.covers(*covered[:2]) or self._is_created(*covered[:2])]
        if not declared and entry.state == "up":
            self._create(parsed, entry, endpoints, directions)
            return
        if not declared:
            message = f"there is no link from {shown(ends[0])} to {shown(ends[1])}"
            hint = "name the two ends of a declared link, or create one: `state: up`, with `latency` and `rate`"
            if index.covers(ends[1], ends[0]):
                hint = f"there is only one from {shown(ends[1])} to {shown(ends[0])}"
            self.report.error("unknown-link", message, hint, at)
            return
        up = None if entry.state is None else entry.state == "up"
        where = self.report.where(marked.at)
        self.events.extend(
            LinkEvent(parsed.when, origin, dest, change, up, entry.for_, where)
            for origin, dest, change in declared
            if up is not None or change != UNCHANGED
        )

    def _is_created(self, origin: str, dest: str) -> bool:
        return any((link.origin, link.dest) == (origin, dest) for link in self.created)

    def _create(
        self,
        parsed: _Parsed,
        entry: LinkEventEntry,
        endpoints: Endpoints,
        directions: list[tuple[str, str, LinkChange]],
    ) -> None:
        """Bring up a link that is not declared: the event itself says what it is like."""
        marked = parsed.marked
        if not endpoints.members(entry.link[0]).isdisjoint(endpoints.members(entry.link[1])):
            self.report.error("self-link", "a link would join something to itself", "", marked.at)
            return
        where = self.report.where(marked.at)
        for origin, dest, change in directions:
            if change.latency_ms is None or change.rate_bps is None:
                word = "latency" if change.latency_ms is None else rate_word(marked)
                message = f"there is no link from {shown(origin)} to {shown(dest)}; to create one, `{word}` is needed"
                self.report.error("unknown-link", message, f"add `{word}`, or name a declared link", marked.at)
                return
            properties = LinkProperties(
                change.latency_ms,
                change.rate_bps,
                change.jitter_ms or 0.0,
                change.loss or 0.0,
                change.queue or DEFAULT_QUEUE,
                change.background_bps or 0.0,
            )
            network = entry.network or self._network
            self.created.append(Link(origin, dest, properties, starts_down=True, network=network, where=where))
            self.events.append(LinkEvent(parsed.when, origin, dest, UNCHANGED, True, None, where))

    def _bridge_event(self, parsed: _Parsed, entry: BridgeEventEntry, endpoints: Endpoints) -> None:
        marked = parsed.marked
        if entry.bridge not in endpoints.topology.bridge_names:
            hint = did_you_mean(entry.bridge, endpoints.topology.bridge_names)
            self.report.error(
                "unknown-name", f"there is no bridge {shown(entry.bridge)}", hint, marked.place("bridge")[1]
            )
            return
        if entry.for_ is not None and not self._undo(marked, "for", entry.state == "down", "`state: down`"):
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


def _change(entry: LinkEventEntry, directed_rate: float | None) -> LinkChange:
    rate = directed_rate if directed_rate is not None else entry.rate
    return LinkChange(entry.latency, rate, entry.jitter, entry.loss, entry.queue, entry.background)
