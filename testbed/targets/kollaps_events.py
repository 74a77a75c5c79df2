"""How Kollaps executes events.

Takes a `Topology`, gives findings; touches nothing. Events that XML cannot express (repeated, lasting, for single
replicas) are errors already and are left out here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from testbed.errors import Finding, Where, error, warning
from testbed.targets.host_names import learners
from testbed.targets.reported import ReportedFindings
from testbed.topologies.model import BridgeEvent, LinkEvent, NodeAction, NodeEvent, Topology
from testbed.units import format_duration, shown

_NetworkEvent = LinkEvent | BridgeEvent
_SLOT_S = 0.5
"""Interval at which Kollaps' scheduler looks for the next event; it executes one at a time."""
_TOLERANCE_S = 1e-6
_NEW_LINK_EXTRA = 1
"""A new link takes one slot more than it has directions."""


def event_findings(topology: Topology, reported: ReportedFindings) -> Iterator[Finding]:
    """All findings about events that reading the file has not reported."""
    if not topology.events:
        return
    of_nodes = sorted(_plain_node_events(topology), key=lambda event: event.when.at_s)
    written = [event for event in topology.events if isinstance(event, _NetworkEvent) and _is_plain(event)]
    of_network = sorted(written, key=lambda event: event.when.at_s)
    yield from _joins(topology)
    yield from _reconnects(of_nodes, topology)
    yield from _leaves(of_nodes)
    yield from (each for each in _order(written) if not reported.of(each.code, each.where))
    yield from _one_way(written)
    yield from _restored_links(topology, of_network)
    yield from _restored_bridges(of_network)
    yield from _late(topology, of_nodes, _slots(topology, of_network))


def _is_plain(event: NodeEvent | _NetworkEvent) -> bool:
    return event.when.every_s is None and event.for_s is None


def _plain_node_events(topology: Topology) -> Iterator[NodeEvent]:
    """Events that concern exactly one service."""
    services = {service.name for service in learners(topology)}
    for event in topology.events:
        if (
            isinstance(event, NodeEvent)
            and _is_plain(event)
            and len(event.targets) == 1
            and event.targets[0] in services
        ):
            yield event


def _joins(topology: Topology) -> Iterator[Finding]:
    """With any event in the file, Kollaps starts only services that join."""
    targets = {
        target
        for event in topology.events
        if isinstance(event, NodeEvent) and event.action is NodeAction.JOIN
        for target in event.targets
    }
    joining = {topology.nodes[rank].service.name for rank in topology.select_all(tuple(targets))}
    for service in learners(topology):
        if service.name not in joining:
            many = f' amount="{service.replicas}"' if service.replicas > 1 else ""
            yield error(
                "kollaps-no-join",
                f"{shown(service.name)} never joins: as there are events, Kollaps would not start it",
                f'add <schedule name="{service.name}" time="0" action="join"{many}/>; in YAML, '
                f"`- {{at: 0s, node: {service.name}, do: join}}`",
                service.where,
            )


def _reconnects(events: Sequence[NodeEvent], topology: Topology) -> Iterator[Finding]:
    """Kollaps subtracts the amount before it compares: at most half of the disconnected replicas can reconnect."""
    replicas = {service.name: service.replicas for service in learners(topology)}
    disconnected: dict[str, int] = defaultdict(int)
    for event in events:
        name = event.targets[0]
        amount = event.count or replicas[name]
        if event.action is NodeAction.DISCONNECT:
            disconnected[name] += amount
        elif event.action is NodeAction.RECONNECT:
            before = disconnected[name]
            disconnected[name] = max(0, before - amount)
            if 2 * amount > before:
                yield error(
                    "kollaps-reconnect",
                    f"{amount} of {shown(name)} reconnect, of {before} that are disconnected: Kollaps refuses more "
                    "than half of them at once",
                    "reconnect at most half in one event (the last one cannot come back)",
                    event.where,
                )


def _leaves(events: Sequence[NodeEvent]) -> Iterator[Finding]:
    leaving = [event for event in events if event.action is NodeAction.LEAVE]
    if leaving:
        more = f" (and {len(leaving) - 1} more)" if len(leaving) > 1 else ""
        yield warning(
            "kollaps-leave",
            f"{shown(leaving[0].targets[0])} leaves{more}: Kollaps kills its processes, as in a crash",
            "do not count on a goodbye",
            leaving[0].where,
        )


def _order(written: Sequence[_NetworkEvent]) -> Iterator[Finding]:
    latest = 0.0
    for event in written:
        if event.when.at_s < latest:
            yield error(
                "kollaps-event-order",
                f"the event at {format_duration(event.when.at_s)} stands after one at {format_duration(latest)}: "
                "Kollaps gives a link or bridge event the state of the events written before it",
                "sort events by time",
                event.where,
            )
        latest = max(latest, event.when.at_s)


def _one_way(written: Sequence[_NetworkEvent]) -> Iterator[Finding]:
    changes = [event for event in written if isinstance(event, LinkEvent) and event.up is None]
    changed = {(event.origin, event.dest, event.when.at_s) for event in changes}
    for event in changes:
        if (event.dest, event.origin, event.when.at_s) not in changed:
            yield warning(
                "kollaps-one-way-event",
                f"only the direction from {shown(event.origin)} to {shown(event.dest)} changes",
                "to change both, give `download`; in YAML, leave out `one-way`",
                event.where,
            )


def _restored_links(topology: Topology, events: Sequence[_NetworkEvent]) -> Iterator[Finding]:
    """Links that come up again; a problem with both directions of an event is reported once."""
    absent = {(link.origin, link.dest) for link in topology.links if link.starts_down}
    known = {(link.origin, link.dest) for link in topology.links}
    gone: set[tuple[str, str]] = set()
    replicated = {end: len(topology.select(end)) > 1 for ends in known for end in ends}
    reported: set[tuple[Where, bool]] = set()
    for event in events:
        if not isinstance(event, LinkEvent) or event.up is None or (event.origin, event.dest) not in known:
            continue
        ends = (event.origin, event.dest)
        if not event.up:
            gone.add(ends)
            continue
        if ends in absent:
            absent.discard(ends)
            continue
        was_gone = ends in gone
        gone.discard(ends)
        group = next((end for end in ends if replicated[end]), None)
        if (was_gone and group is None) or (event.where is not None and (event.where, was_gone) in reported):
            continue
        reported.update([(event.where, was_gone)] if event.where else [])
        if was_gone:
            yield error(
                "kollaps-replica-link",
                f"the link from {shown(ends[0])} to {shown(ends[1])} comes back: as {shown(str(group))} has "
                "several replicas, Kollaps' emulation core panics",
                "put a second bridge between and let the link of the two bridges leave and join, or set the loss to 1",
                event.where,
            )
        else:
            yield error(
                "kollaps-link-join",
                f"the link from {shown(ends[0])} to {shown(ends[1])} comes up but was not down: Kollaps adds a second "
                "one, or panics without `latency` and `upload`",
                "remove the event, or let the link leave before",
                event.where,
            )


def _restored_bridges(events: Sequence[_NetworkEvent]) -> Iterator[Finding]:
    gone: set[str] = set()
    for event in events:
        if not isinstance(event, BridgeEvent):
            continue
        if event.up and event.bridge not in gone:
            yield error(
                "kollaps-bridge-join",
                f"the bridge {shown(event.bridge)} joins without having left: Kollaps' emulation core panics",
                "remove the event: bridges are there from the start",
                event.where,
            )
        gone.discard(event.bridge) if event.up else gone.add(event.bridge)


@dataclass(slots=True)
class _Slot:
    """The time slot in which Kollaps executes an entry of the file."""

    at_s: float
    where: Where | None
    what: str
    events: int
    start_s: float = 0.0
    end_s: float = 0.0


def _slots(topology: Topology, events: Sequence[_NetworkEvent]) -> list[_Slot]:
    """When Kollaps would execute every entry about links and bridges."""
    absent = {(link.origin, link.dest) for link in topology.links if link.starts_down}
    slots: list[_Slot] = []
    for event in events:
        if isinstance(event, BridgeEvent):
            what, is_new = f"bridge {shown(event.bridge)}", False
        else:
            what, is_new = f"link {shown(event.origin)} – {shown(event.dest)}", (event.origin, event.dest) in absent
            absent.discard((event.origin, event.dest))
        last = slots[-1] if slots else None
        if last is not None and event.where is not None and (last.where, last.at_s) == (event.where, event.when.at_s):
            last.events += 1 + (_NEW_LINK_EXTRA if is_new else 0)
        else:
            slots.append(_Slot(event.when.at_s, event.where, what, 1))
    free_s = 0.0
    for slot in slots:
        slot.start_s = max(slot.at_s, free_s)
        slot.end_s = free_s = slot.start_s + _SLOT_S * slot.events
    return slots


def _late(topology: Topology, of_nodes: Sequence[NodeEvent], slots: Sequence[_Slot]) -> Iterator[Finding]:
    """Entries that Kollaps' scheduler executes late.

    Every container has its own scheduler, for the events of all links and bridges and for those of its own replica.
    """
    times = [event.when.at_s for event in of_nodes]
    for slot in slots:
        before = bisect_left(times, slot.at_s) - 1
        start_s = max(slot.start_s, times[before] + _SLOT_S) if before >= 0 else slot.start_s
        if start_s > slot.at_s + _TOLERANCE_S:
            yield _too_close(slot.what, slot.at_s, start_s, slot.where)
    starts = [slot.start_s for slot in slots]
    replicas = {service.name: service.replicas for service in learners(topology)}
    own: dict[str, tuple[float, int]] = {}
    for event in of_nodes:
        name, at_s, amount = event.targets[0], event.when.at_s, event.count or replicas[event.targets[0]]
        slot_before = bisect_left(starts, at_s + _TOLERANCE_S) - 1
        free_s = slots[slot_before].end_s if slot_before >= 0 else 0.0
        previous_s, previous_amount = own.get(name, (0.0, 0))
        # Which replicas an event takes is unknown, but these two overlap.
        if previous_amount + amount > replicas[name] and previous_amount:
            free_s = max(free_s, previous_s + _SLOT_S)
        own[name] = at_s, amount
        if free_s > at_s + _TOLERANCE_S:
            yield _too_close(f"{shown(name)} {event.action.value}", at_s, free_s, event.where)


def _too_close(what: str, at_s: float, start_s: float, where: Where | None) -> Finding:
    return warning(
        "kollaps-event-spacing",
        f"{what} at {format_duration(at_s)} would happen at about {format_duration(round(start_s, 3))}, "
        f"{format_duration(round(start_s - at_s, 3))} late: Kollaps executes one event in half a second",
        "leave half a second after every event, and after a change of both directions one second",
        where,
    )
