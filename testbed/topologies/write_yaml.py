"""`Topology` → YAML text that loads as the same model. Pure.

Every value goes through the YAML library's own dumper, one entry per line, so that no name can break the syntax.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import yaml

from testbed.topologies.model import (
    DEFAULT_IMAGE,
    DEFAULT_NETWORK,
    DEFAULT_QUEUE,
    UNDONE_BY,
    BridgeEvent,
    KollapsSettings,
    Link,
    LinkEvent,
    LinkProperties,
    NodeAction,
    NodeEvent,
    PartitionEvent,
    QueueLimit,
    Routing,
    Service,
    Topology,
    When,
)
from testbed.topologies.two_way import WrittenEvent, in_pairs, same_event, same_link, written_events
from testbed.units import format_duration, format_latency, format_loss, format_rate, format_size

_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Fields = dict[str, object]


def to_yaml(topology: Topology) -> str:
    """The whole document."""
    defaults = _defaults(topology)
    head: _Fields = {"name": topology.name}
    if topology.routing is not Routing.HOPS:
        head["routing"] = topology.routing.value
    lines = [f"{key}: {_flow(value)}" for key, value in head.items()]
    if defaults:
        lines.append(f"defaults: {_flow(defaults)}")
    lines.append("services:" if topology.services else "services: {}")
    lines.extend(f"  {_flow(service.name)}: {_flow(_service(service, defaults))}" for service in topology.services)
    if topology.bridges:
        lines.append(f"bridges: {_flow([bridge.name for bridge in topology.bridges])}")
    links, events = list(link_lines(topology)), list(event_lines(topology))
    lines.append("links:" if links else "links: []")
    lines.extend(f"  - {line}" for line in links)
    if events:
        lines.append("events:")
        lines.extend(f"  - {line}" for line in events)
    if topology.kollaps != KollapsSettings():
        lines.append(f"kollaps: {_flow(_kollaps(topology.kollaps))}")
    return "\n".join(lines) + "\n"


def link_lines(topology: Topology) -> Iterator[str]:
    """Every declared link as one line of YAML."""
    defaults = _defaults(topology)
    declared = [link for link in topology.links if not link.starts_down]
    return (_flow(_link(*pair, defaults)) for pair in in_pairs(declared, same_link))


def event_lines(topology: Topology) -> Iterator[str]:
    """Every event as one line of YAML."""
    return (_flow(entry) for entry in _events(topology, _defaults(topology)))


def _flow(value: object) -> str:
    """One value on one line."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=2**31 - 1
    )
    return text.removesuffix("...\n").rstrip("\n")


def _defaults(topology: Topology) -> _Fields:
    """Properties that all links, or all services, have in common."""
    networks = {link.network for link in topology.links}
    images = {service.image for service in topology.services}
    defaults: _Fields = {}
    if len(networks) == 1 and networks != {DEFAULT_NETWORK}:
        defaults["network"] = networks.pop()
    if len(images) == 1 and images != {DEFAULT_IMAGE}:
        defaults["image"] = images.pop()
    return defaults


def _service(service: Service, defaults: Mapping[str, object]) -> _Fields:
    fields: _Fields = {"replicas": service.replicas}
    if service.image != defaults.get("image", DEFAULT_IMAGE):
        fields["image"] = service.image
    if service.command:
        fields["command"] = list(service.command)
    if service.cpus is not None:
        fields["cpus"] = _number(service.cpus)
    if service.memory_bytes is not None:
        fields["memory"] = format_size(service.memory_bytes)
    if service.speed != 1.0:
        fields["speed"] = _number(service.speed)
    if service.supervisor:
        fields["supervisor"] = True
    if service.port is not None:
        fields["port"] = service.port
    if not service.reuse:
        fields["reuse"] = False
    if service.active_paths:
        fields["active-paths"] = list(service.active_paths)
    return fields


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _queue(queue: QueueLimit) -> str:
    if queue.size_bytes is not None:
        return format_size(queue.size_bytes)
    return format_latency(queue.ms or 0.0)


def _link(there: Link, back: Link | None, defaults: Mapping[str, object]) -> _Fields:
    fields: _Fields = {"from": there.origin, "to": there.dest}
    properties = there.properties
    fields["latency"] = format_latency(properties.latency_ms)
    if properties.jitter_ms:
        fields["jitter"] = format_latency(properties.jitter_ms)
    if properties.loss:
        fields["loss"] = format_loss(properties.loss)
    if back is None or back.properties.rate_bps == properties.rate_bps:
        fields["rate"] = format_rate(properties.rate_bps)
    else:
        fields["up"], fields["down"] = format_rate(properties.rate_bps), format_rate(back.properties.rate_bps)
    if properties.queue != DEFAULT_QUEUE:
        fields["queue"] = _queue(properties.queue)
    if properties.background_bps:
        fields["background"] = format_rate(properties.background_bps)
    if back is None:
        fields["one-way"] = True
    elif different := _differences(properties, back.properties):
        fields["back"] = different
    if there.origin_shared or there.dest_shared:
        both = there.origin_shared and there.dest_shared
        fields["shared"] = "both" if both else "from" if there.origin_shared else "to"
    if there.network != defaults.get("network", DEFAULT_NETWORK):
        fields["network"] = there.network
    return fields


def _differences(there: LinkProperties, back: LinkProperties) -> _Fields:
    """Properties of the direction back that differ, except the rate."""
    fields: _Fields = {}
    if back.latency_ms != there.latency_ms:
        fields["latency"] = format_latency(back.latency_ms)
    if back.jitter_ms != there.jitter_ms:
        fields["jitter"] = format_latency(back.jitter_ms)
    if back.loss != there.loss:
        fields["loss"] = format_loss(back.loss)
    if back.queue != there.queue:
        fields["queue"] = _queue(back.queue)
    if back.background_bps != there.background_bps:
        fields["background"] = format_rate(back.background_bps)
    return fields


def _when(when: When) -> _Fields:
    if when.every_s is None or when.until_s is None:
        return {"at": format_duration(when.at_s)}
    every, start, until = (format_duration(time) for time in (when.every_s, when.at_s, when.until_s))
    return {"every": every, "from": start, "until": until}


def _events(topology: Topology, defaults: Mapping[str, object]) -> Iterator[_Fields]:
    for there, back in in_pairs(written_events(topology), same_event):
        if isinstance(there.event, LinkEvent):
            yield _link_event(there.event, there, back, defaults)
        else:
            yield _other_event(there.event)


def _link_event(
    event: LinkEvent, there: WrittenEvent, back: WrittenEvent | None, defaults: Mapping[str, object]
) -> _Fields:
    fields = _when(event.when) | {"link": [event.origin, event.dest]}
    if event.up is not None:
        fields["state"] = "up" if event.up else "down"
    if event.for_s is not None:
        fields["for"] = format_duration(event.for_s)
    change = there.change
    if change.latency_ms is not None:
        fields["latency"] = format_latency(change.latency_ms)
    if change.jitter_ms is not None:
        fields["jitter"] = format_latency(change.jitter_ms)
    if change.loss is not None:
        fields["loss"] = format_loss(change.loss)
    rates = (change.rate_bps, back.change.rate_bps if back is not None else None)
    for key, rate in {"rate": rates[0]}.items() if rates[0] == rates[1] else zip(("up", "down"), rates, strict=True):
        if rate is not None:
            fields[key] = format_rate(rate)
    if change.queue is not None:
        fields["queue"] = _queue(change.queue)
    if change.background_bps is not None:
        fields["background"] = format_rate(change.background_bps)
    if back is None:
        fields["one-way"] = True
    if there.network is not None and there.network != defaults.get("network", DEFAULT_NETWORK):
        fields["network"] = there.network
    return fields


def _other_event(event: NodeEvent | BridgeEvent | PartitionEvent) -> _Fields:
    fields = _when(event.when)
    if isinstance(event, NodeEvent):
        fields |= {"node": _words(event.targets), "do": event.action.value}
        if event.count is not None:
            fields["count"] = event.count
        if event.for_s is not None:
            undo = "rejoin" if UNDONE_BY[event.action] is NodeAction.JOIN else "for"
            fields[undo] = format_duration(event.for_s)
        return fields
    if isinstance(event, BridgeEvent):
        fields |= {"bridge": event.bridge, "state": "up" if event.up else "down"}
    else:
        fields["partition"] = [_words(group) for group in event.groups]
    if event.for_s is not None:
        fields["for"] = format_duration(event.for_s)
    return fields


def _words(words: Sequence[str]) -> object:
    return words[0] if len(words) == 1 else list(words)


def _kollaps(settings: KollapsSettings) -> _Fields:
    period = format_duration(settings.pool_period_s)
    return {"boot": settings.boot, "pool-period": period, "max-age": settings.max_age}
