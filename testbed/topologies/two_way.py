"""Pairs the directed links and events of the model into the two-way entries of a file. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from testbed.topologies.model import UNCHANGED, Event, Link, LinkChange, LinkEvent, LinkProperties, Topology

_Item = TypeVar("_Item")


def in_pairs(items: Sequence[_Item], belong: Callable[[_Item, _Item], bool]) -> Iterator[tuple[_Item, _Item | None]]:
    """Pairs adjacent items that belong together; others stay alone, and the order is kept."""
    position = 0
    while position < len(items):
        if position + 1 < len(items) and belong(items[position], items[position + 1]):
            yield items[position], items[position + 1]
            position += 2
        else:
            yield items[position], None
            position += 1


def same_link(first: Link, second: Link) -> bool:
    """Whether two links are the two directions of one link."""
    return (
        (first.origin, first.dest) == (second.dest, second.origin)
        and first.network == second.network
        and (first.origin_shared, first.dest_shared) == (second.dest_shared, second.origin_shared)
    )


@dataclass(frozen=True, slots=True)
class WrittenEvent:
    """An event as a file has it: the event that creates a link also has the link's properties."""

    event: Event
    change: LinkChange = UNCHANGED
    network: str | None = None


def whole_change(properties: LinkProperties) -> LinkChange:
    """The change that gives a link all these properties."""
    return LinkChange(
        properties.latency_ms,
        properties.rate_bps,
        properties.jitter_ms,
        properties.loss,
        properties.queue,
        properties.background_bps,
    )


def written_events(topology: Topology) -> list[WrittenEvent]:
    """All events; the earliest that brings up a link that starts down also has the network of this new link."""
    created = {(link.origin, link.dest): link for link in topology.links if link.starts_down}
    creating: dict[int, Link] = {}
    for event in sorted(topology.events, key=lambda event: event.when.at_s):
        if isinstance(event, LinkEvent) and event.up and (event.origin, event.dest) in created:
            creating[id(event)] = created.pop((event.origin, event.dest))
    written: list[WrittenEvent] = []
    for event in topology.events:
        link = creating.get(id(event))
        change = event.change if isinstance(event, LinkEvent) else UNCHANGED
        written.append(WrittenEvent(event, change, link.network if link is not None else None))
    return written


def count_events(topology: Topology) -> int:
    """Number of events in a file, where a change of both directions of a link is one."""
    return sum(1 for _ in in_pairs(written_events(topology), same_event))


def same_event(first: WrittenEvent, second: WrittenEvent) -> bool:
    """Whether two events are one event for both directions of a link; only the rates may differ."""
    there, back = first.event, second.event
    if not isinstance(there, LinkEvent) or not isinstance(back, LinkEvent) or first.network != second.network:
        return False
    a, b = first.change, second.change
    return (there.origin, there.dest, there.when, there.up, there.for_s) == (
        back.dest,
        back.origin,
        back.when,
        back.up,
        back.for_s,
    ) and (a.latency_ms, a.jitter_ms, a.loss, a.queue, a.background_bps) == (
        b.latency_ms,
        b.jitter_ms,
        b.loss,
        b.queue,
        b.background_bps,
    )
