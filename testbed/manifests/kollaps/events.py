"""Rewrites events for Kollaps: each occurs once, ends are explicit, all services join, in order of time.

Takes a `Topology`, gives an equivalent one and notes; touches nothing. What cannot be rewritten (pauses, partitions,
events for some replicas, overlapping downtimes of a link) is left to be refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from testbed.errors import Finding, Where, note
from testbed.manifests.kollaps.services import Rewritten
from testbed.targets.host_names import learners
from testbed.topologies.event_checks import starting_absent
from testbed.topologies.model import (
    UNCHANGED,
    UNDONE_BY,
    BridgeEvent,
    Event,
    LinkEvent,
    NodeAction,
    NodeEvent,
    PartitionEvent,
    Topology,
    When,
    later,
)
from testbed.units import shown

_MOST_OCCURRENCES = 10_000
"""After each, every emulation core of Kollaps recomputes all its paths."""
_PAUSES = (NodeAction.PAUSE, NodeAction.RESUME)


def written_out(topology: Topology) -> Rewritten:
    """Writes each repetition as an event, and the end of each lasting event as another."""
    if sum(event.when.count() for event in topology.events) > _MOST_OCCURRENCES:
        return topology, []
    clashing = _clashing(topology)
    events: list[Event] = []
    first: Event | None = None
    for event in topology.events:
        several = list(_by_service(topology, event))
        if _can_be_written(event, clashing) and all(_is_whole(topology, each) for each in several):
            made = [once for each in several for at_s in event.when.times() for once in _once(each, at_s)]
        else:
            made = [event]
        first = first or (event if made != [event] else None)
        events += made
    if first is None:
        return topology, []
    message = f"repeated and lasting events were written out: {len(topology.events)} are {len(events)} now"
    return replace(topology, events=tuple(events)), [note("kollaps-cannot-say", message, "", first.where)]


def why_left(topology: Topology) -> dict[Where, str]:
    """Reasons, by place, why events still repeat or last, other than their own kind."""
    left = [each for each in topology.events if each.when.every_s is not None or each.for_s is not None]
    left = [each for each in left if _can_be_written(each, set()) and _is_whole(topology, each)]
    count = sum(event.when.count() for event in topology.events)
    why = "how long something is down that goes down again by then (let downtimes of one thing end before the next)"
    if count > _MOST_OCCURRENCES:
        why = f"{count} events (at most {_MOST_OCCURRENCES}, each written out)"
    return {event.where: why for event in left if event.where is not None}


def _by_service(topology: Topology, event: Event) -> Iterator[Event]:
    """Splits an event for all nodes of several services into one for each."""
    if not isinstance(event, NodeEvent) or event.count is not None:
        yield event
        return
    ranks = frozenset(topology.select_all(event.targets))
    names = [service.name for service in learners(topology) if ranks & set(topology.select(service.name))]
    if all(ranks >= set(topology.select(name)) for name in names):
        yield from (replace(event, targets=(name,)) for name in names)
    else:
        yield event


def _is_whole(topology: Topology, event: Event) -> bool:
    services = {service.name for service in learners(topology)}
    return not isinstance(event, NodeEvent) or (len(event.targets) == 1 and event.targets[0] in services)


def _can_be_written(event: Event, clashing: set[object]) -> bool:
    match event:
        case PartitionEvent():
            return False
        case NodeEvent():
            return event.action not in _PAUSES and (event.for_s is None or event.targets not in clashing)
        case _:
            return _subject(event) not in clashing


def _subject(event: Event) -> object:
    match event:
        case LinkEvent():
            return "link", event.origin, event.dest
        case BridgeEvent():
            return "bridge", event.bridge
        case NodeEvent():
            return event.targets
        case PartitionEvent():
            return "partition"


def _clashing(topology: Topology) -> set[object]:
    """Subjects with downtimes that overlap or touch: there an end would undo only its own event."""
    spans: dict[object, list[tuple[float, float]]] = defaultdict(list)
    lasting: set[object] = set()
    for event in topology.events:
        if isinstance(event, LinkEvent) and event.up is None:
            continue
        if isinstance(event, NodeEvent) and event.count is not None:
            continue  # a number of replicas, not particular ones
        subject, for_s = _subject(event), event.for_s
        lasting |= {subject} if for_s is not None else set()
        spans[subject] += [(at_s, at_s if for_s is None else later(at_s, for_s)) for at_s in event.when.times()]
    return {
        subject
        for subject in lasting
        if any(end_s >= start_s for (_, end_s), (start_s, _) in pairwise(sorted(spans[subject])))
    }


def _once(event: Event, at_s: float) -> Iterator[Event]:
    """One occurrence and its end."""
    plain = replace(event, when=When(at_s))
    if event.for_s is None:
        yield plain
        return
    end = When(later(at_s, event.for_s))
    match plain:
        case NodeEvent():
            yield replace(plain, for_s=None)
            yield replace(plain, for_s=None, when=end, action=UNDONE_BY[plain.action])
        case LinkEvent():
            yield replace(plain, for_s=None)
            yield replace(plain, for_s=None, when=end, up=True, change=UNCHANGED)
        case BridgeEvent():
            yield replace(plain, for_s=None)
            yield replace(plain, for_s=None, when=end, up=True)
        case PartitionEvent():
            yield plain


def with_joins(topology: Topology) -> Rewritten:
    """Lets services that are present at the start join at 0: if there are events, Kollaps starts only what joins."""
    if not topology.events:
        return topology, []
    absent = starting_absent(topology)
    joins: list[Event] = []
    for service in learners(topology):
        present = sum(rank not in absent for rank in topology.select(service.name))
        if present:
            count = None if present == service.replicas else present
            joins.append(NodeEvent(When(0.0), NodeAction.JOIN, (service.name,), count, where=service.where))
    if not joins:
        return topology, []
    names = [shown(service.name) for service in learners(topology)]
    message = f"{len(joins)} of {len(names)} services, which are there from the start, join at 0s: else nothing starts"
    return replace(topology, events=(*joins, *topology.events)), [note("kollaps-no-join", message, "", joins[0].where)]


def in_order(topology: Topology) -> Rewritten:
    """Sorts events by time, stably."""
    events = tuple(sorted(topology.events, key=lambda event: event.when.at_s))
    said: list[Finding] = []
    if events != topology.events:
        late = next(b for a, b in pairwise(topology.events) if b.when.at_s < a.when.at_s)
        message = "events are in the order of their times: Kollaps takes the order in which they are written"
        said = [note("kollaps-event-order", message, "", late.where)]
    return replace(topology, events=events), said
