"""`Topology` → XML in Kollaps 2.0's language, or all reasons why that language cannot express it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.sax.saxutils import quoteattr

import yaml

from testbed.errors import Finding, InvalidInput, Where, error
from testbed.topologies.event_checks import replicas_needed
from testbed.topologies.model import (
    DEFAULT_MAX_AGE,
    DEFAULT_POOL_PERIOD_S,
    DEFAULT_QUEUE,
    UNCHANGED,
    BridgeEvent,
    Link,
    LinkEvent,
    NodeAction,
    NodeEvent,
    PartitionEvent,
    Routing,
    Service,
    Topology,
)
from testbed.topologies.two_way import WrittenEvent, in_pairs, same_event, same_link, written_events
from testbed.units import UNLIMITED, format_number, shown

_Attributes = Mapping[str, str | None]
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ACTIONS = (NodeAction.JOIN, NodeAction.LEAVE, NodeAction.CRASH, NodeAction.DISCONNECT, NodeAction.RECONNECT)


def to_xml(topology: Topology, file: str = "") -> str:
    """The whole document; raises InvalidInput, about `file`, where XML cannot express the topology."""
    unsayable = dict.fromkeys(what_xml_cannot_say(topology))  # both directions of a link have the same reasons
    if unsayable:
        raise InvalidInput(file or topology.name, tuple(unsayable))
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<experiment boot={quoteattr(topology.kollaps.boot)}>"]
    lines += ["  <config>", _element("topology", _config(topology)), "  </config>"]
    shared = _sharing(topology)
    lines.append("  <services>")
    joined = _joined(topology)  # Kollaps counts the joins of these, so `replicas` would only mislead
    lines += [
        _element("service", _service(service, shared.get(service.name), replicas=service.name not in joined))
        for service in topology.services
    ]
    lines.append("  </services>")
    if topology.bridges:
        lines += [
            "  <bridges>",
            *(_element("bridge", {"name": bridge.name}) for bridge in topology.bridges),
            "  </bridges>",
        ]
    declared = [link for link in topology.links if not link.starts_down]
    lines += ["  <links>", *(_element("link", _link(*pair)) for pair in in_pairs(declared, _one_element)), "  </links>"]
    if topology.events:
        schedules = in_pairs(written_events(topology), _one_schedule)
        lines += ["  <dynamic>", *(_element("schedule", _event(topology, *pair)) for pair in schedules), "  </dynamic>"]
    return "\n".join([*lines, "</experiment>"]) + "\n"


def _element(tag: str, attributes: _Attributes) -> str:
    words = [f"{name}={quoteattr(value)}" for name, value in attributes.items() if value is not None]
    return f"    <{' '.join([tag, *words])}/>"


def _config(topology: Topology) -> _Attributes:
    settings = topology.kollaps
    period = None if settings.pool_period_s == DEFAULT_POOL_PERIOD_S else format_number(settings.pool_period_s)
    return {
        "name": topology.name,
        "shortest_path": "latency" if topology.routing is Routing.LATENCY else "hop",
        "pool_period": period,
        "max_age": None if settings.max_age == DEFAULT_MAX_AGE else str(settings.max_age),
    }


def _list(words: tuple[str, ...]) -> str | None:
    """`['a','b']`, which YAML and Kollaps read alike."""
    if not words:
        return None
    quoted: list[str] = [
        yaml.safe_dump(
            word, default_style="'" if word.isprintable() else '"', allow_unicode=word.isprintable(), width=2**31 - 1
        ).strip()
        for word in words
    ]
    return f"[{','.join(quoted)}]"


def _service(service: Service, shared: bool | None, *, replicas: bool) -> _Attributes:
    return {
        "name": service.name,
        "image": service.image,
        "command": _list(service.command),
        "replicas": str(service.replicas) if replicas and service.replicas != 1 else None,
        "share": "true" if shared else None,
        "reuse": None if service.reuse else "false",
        "supervisor": "true" if service.supervisor else None,
        "port": None if service.port is None else str(service.port),
        "activepaths": _list(service.active_paths),
    }


def _rate(rate_bps: float | None) -> str | None:
    """A rate as a whole number if possible, since Kollaps reads nothing else."""
    if rate_bps is None:
        return None
    for factor, unit in ((10**9, "Gbps"), (10**6, "Mbps"), (10**3, "Kbps")):
        if int(rate_bps) % factor == 0:
            return f"{int(rate_bps) // factor}{unit}"
    return f"{int(rate_bps)}bps"


def _one_element(first: Link, second: Link) -> bool:
    """Whether one <link> can express both directions: everything but the rate must be equal."""
    a, b = first.properties, second.properties
    return same_link(first, second) and (a.latency_ms, a.jitter_ms, a.loss) == (b.latency_ms, b.jitter_ms, b.loss)


def _link(there: Link, back: Link | None) -> _Attributes:
    properties = there.properties
    return {
        "origin": there.origin,
        "dest": there.dest,
        "latency": format_number(properties.latency_ms),
        "upload": _rate(properties.rate_bps),
        "download": None if back is None else _rate(back.properties.rate_bps),
        "jitter": format_number(properties.jitter_ms) if properties.jitter_ms else None,
        "drop": format_number(properties.loss) if properties.loss else None,
        "network": there.network,
    }


def _one_schedule(first: WrittenEvent, second: WrittenEvent) -> bool:
    """Whether one <schedule> can express both directions: with `download`, or where both go down."""
    event = second.event
    return (
        same_event(first, second)
        and second.change.rate_bps is not None
        and isinstance(event, LinkEvent)
        and event.up is not False
    )


def _event(topology: Topology, there: WrittenEvent, back: WrittenEvent | None) -> _Attributes:
    event = there.event
    time = format_number(event.when.at_s)
    if isinstance(event, NodeEvent):
        amount = event.count or len(topology.select(event.targets[0]))
        many = str(amount) if amount != 1 else None
        return {"name": event.targets[0], "time": time, "action": event.action.value, "amount": many}
    if isinstance(event, BridgeEvent):
        return {"name": event.bridge, "time": time, "action": "join" if event.up else "leave"}
    assert isinstance(event, LinkEvent)  # noqa: S101 - partitions were refused
    change = there.change
    return {
        "origin": event.origin,
        "dest": event.dest,
        "time": time,
        "action": None if event.up is None else "join" if event.up else "leave",
        "latency": None if change.latency_ms is None else format_number(change.latency_ms),
        "upload": _rate(change.rate_bps),
        "download": None if back is None else _rate(back.change.rate_bps),
        "jitter": None if change.jitter_ms is None else format_number(change.jitter_ms),
        "drop": None if change.loss is None else format_number(change.loss),
        "network": there.network,
    }


def _sharing(topology: Topology) -> dict[str, bool | None]:
    """Whether the links of each service are shared; None where some are and some are not."""
    sides: dict[str, set[bool]] = {}
    for link in topology.links:
        if link.starts_down:
            continue  # links created by events are never shared
        sides.setdefault(link.origin, set()).add(link.origin_shared)
        sides.setdefault(link.dest, set()).add(link.dest_shared)
    return {name: next(iter(values)) if len(values) == 1 else None for name, values in sides.items()}


def what_xml_cannot_say(topology: Topology) -> Iterator[Finding]:
    """A finding for everything that Kollaps' XML cannot express."""

    def no(where: Where | None, message: str, hint: str = "keep the topology in YAML") -> Finding:
        return error("xml-cannot-say", f"Kollaps' XML cannot say {message}", hint, where)

    services = {service.name: service for service in topology.services}
    shared = _sharing(topology)
    for service in topology.services:
        if service.cpus is not None or service.memory_bytes is not None or service.speed != 1.0:
            yield no(service.where, f"what device {shown(service.name)} is (cpus, memory, speed)", "remove it")
        if any(_NOT_XML.search(word) for word in (service.image, *service.command, *service.active_paths)):
            yield no(service.where, f"a control character, as in {shown(service.name)}", "remove it")
        if service.name in shared and shared[service.name] is None:
            yield no(
                service.where, f"that {shown(service.name)} shares one link and not another", "put a bridge before it"
            )
    ends = services.keys() | topology.bridge_names
    for link in topology.links:
        yield from (no(link.where, message, hint) for message, hint in _link_words(link, ends))
    joined = _joined(topology)
    for service in topology.services:
        if joined.get(service.name, service.replicas) != service.replicas:
            count = f"{service.replicas} replicas of {shown(service.name)}"
            message = f"{count}: it counts its joins, which are {joined[service.name]}"
            yield no(service.where, message, "let every replica join, or none")
    for written in written_events(topology):
        message = _event_words(topology, written, ends)
        if message:
            yield no(written.event.where, message)


def _joined(topology: Topology) -> dict[str, int]:
    """Number of replicas that Kollaps gives to each service that joins."""
    events = (event for event in topology.events if isinstance(event, NodeEvent))
    return replicas_needed(topology.services, events)


def _link_words(link: Link, ends: set[str]) -> Iterator[tuple[str, str]]:
    properties = link.properties
    for end in (link.origin, link.dest):
        if end not in ends:
            yield f"a link of single replicas: {shown(end)}", "give those replicas a service of their own"
    if properties.queue != DEFAULT_QUEUE:
        yield "how long a queue is", "remove `queue`"
    if properties.background_bps:
        yield "background traffic", "remove `background`"
    if properties.rate_bps == UNLIMITED:
        yield "an unlimited rate", "give a rate such as 10Gbps"
    if _NOT_XML.search(link.network):
        yield "a control character in `network`", "remove it"


def _event_words(topology: Topology, written: WrittenEvent, ends: set[str]) -> str:
    event, change = written.event, written.change
    if isinstance(event, PartitionEvent):
        return "a partition"
    if isinstance(event, NodeEvent):
        if event.action not in _ACTIONS:
            return f"`{event.action.value}`"
        services = {service.name for service in topology.services}
        if len(event.targets) != 1 or event.targets[0] not in services:
            return "which replicas an event is for"
    if event.when.every_s is not None:  # reasons that have an equivalent come last
        return "that an event repeats"
    if event.for_s is not None:
        return "how long an event lasts (write its end as an event of its own)"
    if isinstance(event, LinkEvent):
        if event.origin not in ends or event.dest not in ends:
            return "which replicas' link changes"
        creates_usual = written.network is not None and change.queue == DEFAULT_QUEUE and not change.background_bps
        if (change.queue is not None or change.background_bps is not None) and not creates_usual:
            return "a change of queue or background traffic"
        if change.rate_bps == UNLIMITED:
            return "an unlimited rate"
        if event.up is False and change != UNCHANGED:
            return "that a link goes down and changes at once"
    return ""
