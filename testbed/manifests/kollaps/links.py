"""Rewrites links for Kollaps: both directions together, bridges instead of shared links, latency on every path.

Takes a `Topology`, gives an equivalent one and notes; touches nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from testbed.errors import Finding, note
from testbed.manifests.kollaps.services import Rewritten
from testbed.topologies.model import Bridge, Event, Link, LinkEvent, LinkProperties, Topology
from testbed.topologies.two_way import in_pairs, same_link
from testbed.units import format_latency, shown

LEAST_MS = 0.001
"""The least latency that Kollaps' kernel queues do not round to zero."""
_DIGITS = 12


def in_both_directions(topology: Topology) -> Rewritten:
    """Puts the two directions of a link side by side, so that they become one element."""
    waiting: dict[tuple[object, ...], deque[int]] = defaultdict(deque)
    links = topology.links
    for place, link in enumerate(links):
        waiting[_key(link, link.origin, link.dest)].append(place)
    ordered: list[Link] = []
    done: set[int] = set()
    joined: list[Link] = []
    for place, link in enumerate(links):
        if place in done:
            continue
        done.add(place)
        ordered.append(link)
        backs = waiting[_key(link, link.dest, link.origin)]
        while backs and backs[0] in done:
            backs.popleft()
        if backs:
            back = backs.popleft()
            done.add(back)
            ordered.append(links[back])
            if back != place + 1 or links[back].where != link.where:
                joined.append(link)
    if not joined:
        return topology, []
    first = joined[0]
    message = (
        f"{len(joined)} pairs of one-way links, such as between {shown(first.origin)} and {shown(first.dest)}, "
        "became a link with two directions each"
    )
    return replace(topology, links=tuple(ordered)), [note("kollaps-one-way", message, "", first.where)]


def _key(link: Link, origin: str, dest: str) -> tuple[object, ...]:
    """Equal for a link and for one that can be its opposite direction, with ends exchanged."""
    a = link.properties
    forward = origin == link.origin
    sides = (link.origin_shared, link.dest_shared) if forward else (link.dest_shared, link.origin_shared)
    return origin, dest, sides, link.network, link.starts_down, a.latency_ms, a.jitter_ms, a.loss


@dataclass
class _Bridges:
    """Adds bridges that stand for the points where replicas meet."""

    topology: Topology
    made: dict[tuple[str, str], Bridge] = field(default_factory=dict)

    def before(self, shared: str, other: str, link: Link) -> str:
        bridge = self.made.get((shared, other))
        if bridge is None:
            taken = {service.name for service in self.topology.services} | self.topology.bridge_names
            taken |= {each.name for each in self.made.values()}
            name = plain = re.sub("[^A-Za-z0-9-]", "-", f"{shared}-to-{other}")
            number = 1
            while name in taken:
                number += 1
                name = f"{plain}-{number}"
            bridge = self.made[shared, other] = Bridge(name, link.where)
        return bridge.name


def without_sharing(topology: Topology) -> Rewritten:
    """Replaces a shared access link by a bridge, to which each replica has a link of its own.

    The latency between replicas is nearly zero. Links of a service with itself, and shared links parallel to others,
    are left to be refused: events could not distinguish them.
    """
    if not any(link.origin_shared or link.dest_shared for link in topology.links):
        return topology, []
    kinds: dict[frozenset[str], set[frozenset[tuple[str, bool]]]] = defaultdict(set)
    for link in topology.links:
        sides = frozenset({(link.origin, link.origin_shared), (link.dest, link.dest_shared)})
        kinds[frozenset({link.origin, link.dest})].add(sides)
    fit = {ends for ends, found in kinds.items() if len(ends) == 2 and len(found) == 1}
    bridges = _Bridges(topology)
    links: list[Link] = []
    new_ends: dict[tuple[str, str], tuple[str, str]] = {}
    for there, back in in_pairs(topology.links, same_link):
        is_shared = there.origin_shared or there.dest_shared
        if not is_shared or frozenset({there.origin, there.dest}) not in fit:
            links += [there, back] if back is not None else [there]
            continue
        origin, dest = there.origin, there.dest
        if there.origin_shared:
            origin = bridges.before(there.origin, there.dest, there)
            links += _legs(topology, there, back, there.origin, origin)
        if there.dest_shared:
            dest = bridges.before(there.dest, there.origin, there)
            links += _legs(topology, back, there, there.dest, dest) if back else [_leg(topology, there, dest)]
        links.append(_main(there, origin, dest))
        new_ends[there.origin, there.dest] = (origin, dest)
        if back is not None:
            links.append(_main(back, dest, origin))
            new_ends[back.origin, back.dest] = (dest, origin)
    if not bridges.made:
        return topology, []
    links.sort(key=lambda link: link.starts_down)
    said: list[Finding] = []
    for (shared, _other), bridge in bridges.made.items():
        message = f"the access link that replicas of {shown(shared)} share has a bridge, {shown(bridge.name)}"
        hint = f"between two of them there are {format_latency(2 * LEAST_MS)}"
        said.append(note("kollaps-share", message, hint, bridge.where))
    events = tuple(_moved(event, new_ends) for event in topology.events)
    made = (*topology.bridges, *bridges.made.values())
    return replace(topology, links=tuple(links), bridges=made, events=events), said


def _legs(topology: Topology, there: Link, back: Link | None, replicas: str, bridge: str) -> Iterator[Link]:
    """Links from the replicas to their bridge with the rate of `there`, and back."""
    yield Link(
        replicas, bridge, LinkProperties(LEAST_MS, _most_bps(topology, there)), network=there.network, where=there.where
    )
    if back is not None:
        properties = LinkProperties(LEAST_MS, _most_bps(topology, back))
        yield Link(bridge, replicas, properties, network=back.network, where=back.where)


def _leg(topology: Topology, link: Link, bridge: str) -> Link:
    """The last hop of a one-way link to replicas that share it."""
    properties = LinkProperties(LEAST_MS, _most_bps(topology, link))
    return Link(bridge, link.dest, properties, network=link.network, where=link.where)


def _most_bps(topology: Topology, link: Link) -> float:
    """The highest rate that the link ever has, so that the legs never limit it."""
    rates = [link.properties.rate_bps]
    for event in topology.events:
        if isinstance(event, LinkEvent) and (event.origin, event.dest) == (link.origin, link.dest):
            rates += [event.change.rate_bps] if event.change.rate_bps is not None else []
    return max(rates)


def _main(link: Link, origin: str, dest: str) -> Link:
    """The link between the bridges, with the latency that remains after the legs."""
    legs = (origin != link.origin) + (dest != link.dest)
    properties = replace(link.properties, latency_ms=_less(link.properties.latency_ms, legs))
    return replace(link, origin=origin, dest=dest, properties=properties, origin_shared=False, dest_shared=False)


def _less(latency_ms: float, legs: int) -> float:
    return max(0.0, round(latency_ms - legs * LEAST_MS, _DIGITS))


def _moved(event: Event, new_ends: dict[tuple[str, str], tuple[str, str]]) -> Event:
    """The event for a link that now ends at bridges."""
    ends = new_ends.get((event.origin, event.dest)) if isinstance(event, LinkEvent) else None
    if ends is None or not isinstance(event, LinkEvent):
        return event
    legs = (ends[0] != event.origin) + (ends[1] != event.dest)
    latency_ms = event.change.latency_ms
    change = event.change if latency_ms is None else replace(event.change, latency_ms=_less(latency_ms, legs))
    return replace(event, origin=ends[0], dest=ends[1], change=change)


def with_latency(topology: Topology) -> Rewritten:
    """Gives nodes' links of latency 0 the least latency at any time, so that every path has some."""
    services = {service.name for service in topology.services}
    changed = [link for link in topology.links if _is_instant(link, services)]
    links = tuple(
        replace(link, properties=replace(link.properties, latency_ms=LEAST_MS)) if _is_instant(link, services) else link
        for link in topology.links
    )
    events = tuple(
        replace(event, change=replace(event.change, latency_ms=LEAST_MS))
        if isinstance(event, LinkEvent) and event.change.latency_ms == 0.0 and {event.origin, event.dest} & services
        else event
        for event in topology.events
    )
    where = changed[0].where if changed else None
    message = f"links of nodes with latency 0 have {format_latency(LEAST_MS)}: Kollaps gives up at paths without any"
    return replace(topology, links=links, events=events), [note("kollaps-zero-latency", message, "", where)]


def _is_instant(link: Link, services: set[str]) -> bool:
    return link.properties.latency_ms == 0.0 and bool({link.origin, link.dest} & services)
