"""Marked values → `Topology` and findings: names, services, bridges, links. Pure.

All problems are reported at once: every entry is checked on its own, and a wrong entry still declares its name, so that
one mistake does not cause others.
"""

from __future__ import annotations

from dataclasses import replace

from testbed.errors import Findings
from testbed.topologies.build_events import EventBuilder
from testbed.topologies.endpoints import Endpoints
from testbed.topologies.entries import Report
from testbed.topologies.event_checks import check_events, replicas_needed
from testbed.topologies.language import Defaults, Document, KollapsEntry, LinkEntry, Properties, ServiceEntry
from testbed.topologies.marked import MarkedList, MarkedMap, Value
from testbed.topologies.model import (
    DEFAULT_IMAGE,
    DEFAULT_NETWORK,
    DEFAULT_QUEUE,
    MAX_DIRECTED_LINKS,
    MAX_NODES,
    Bridge,
    KollapsSettings,
    Link,
    LinkProperties,
    Routing,
    Service,
    Topology,
)
from testbed.topologies.source import Source
from testbed.units import shown


def build(document: MarkedMap, source: Source, default_name: str, findings: Findings) -> Topology | None:
    """The topology, which is valid only if no errors were added to the findings."""
    return _Builder(document, Report(source, findings)).build(default_name)


class _Builder:
    def __init__(self, document: MarkedMap, report: Report) -> None:
        self.document = document
        self.report = report
        self.defaults = Defaults()

    def build(self, default_name: str) -> Topology | None:
        known = [field.alias or name for name, field in Document.model_fields.items()]
        for key in self.document:
            if key not in known:
                at = self.document.place(key)[0]
                self.report.error(
                    "unknown-key", f"a topology has no key {shown(key)}", self.report.findings.suggest(key, known), at
                )
        if "defaults" in self.document and self.document["defaults"] is not None:
            value, at = self.at("defaults")
            self.defaults = self.report.entry(Defaults, value, at, "`defaults`") or Defaults()
        services = self.services()
        bridges = self.bridges({service.name for service in services})
        events = EventBuilder(self.report, self.section("events"))
        needed = replicas_needed(services, events.node_events)
        services = tuple(
            replace(service, replicas=needed[service.name]) if service.name in needed and not counted else service
            for service, counted in zip(services, self.counted(services), strict=True)
        )
        if sum(service.replicas for service in services if not service.supervisor) > MAX_NODES:
            self.report.error(
                "too-many-nodes", f"more than {MAX_NODES} nodes", "lower `replicas`", self.at("services")[1]
            )
            return None
        name, routing = self.name(default_name), self.routing()
        topology = Topology(name, services, (), bridges, (), routing, self.kollaps())
        endpoints = Endpoints(topology, self.report)
        links = self.links(endpoints)
        if self.too_many(endpoints, links):
            return None
        events.resolve(endpoints, links, self.defaults.network or DEFAULT_NETWORK)
        if self.too_many(endpoints, [*links, *events.created]):
            return None
        topology = replace(topology, links=(*links, *events.created), events=tuple(events.events))
        check_events(topology, self.report)
        return topology

    def too_many(self, endpoints: Endpoints, links: list[Link]) -> bool:
        if sum(endpoints.size(link.origin) * endpoints.size(link.dest) for link in links) <= MAX_DIRECTED_LINKS:
            return False
        message = f"more than {MAX_DIRECTED_LINKS} links"
        self.report.error("too-many-links", message, "put a bridge between large services", self.at("links")[1])
        return True

    def at(self, key: str) -> tuple[Value, int]:
        return self.document.get(key), self.document.place(key)[1]

    def section(self, key: str) -> MarkedList:
        """An optional list of the document; may be empty."""
        value, at = self.at(key)
        if isinstance(value, MarkedList):
            return value
        if value is not None:
            self.report.error("bad-shape", f"`{key}` is a list", "begin every item with `- `", at)
        return MarkedList(at)

    def name(self, default: str) -> str:
        value, at = self.at("name")
        if value is None:
            usable = "".join(char for char in default if char.isprintable()).strip()
            return usable[:100].strip() or "topology"
        if not isinstance(value, str) or not value.isprintable() or not value.strip() or len(value) > 100:
            self.report.error("bad-name", "`name` is a text of 1 to 100 characters", "", at)
            return default
        return value

    def routing(self) -> Routing:
        value, at = self.at("routing")
        if value is None and "routing" not in self.document:
            return Routing.HOPS
        if isinstance(value, str) and value in list(Routing):
            return Routing(value)
        wrong = shown(value) if isinstance(value, str) else "this"
        self.report.error("bad-value", f"routing: {wrong} is neither hops nor latency", "write hops or latency", at)
        return Routing.HOPS

    def kollaps(self) -> KollapsSettings:
        value, at = self.at("kollaps")
        entry = self.report.entry(KollapsEntry, value, at, "`kollaps`") if value is not None else None
        return KollapsSettings(entry.boot, entry.pool_period, entry.max_age) if entry else KollapsSettings()

    def services(self) -> tuple[Service, ...]:
        section, at = self.at("services")
        if not isinstance(section, MarkedMap):
            code, message = (
                ("missing", "a topology needs `services`")
                if section is None
                else ("bad-shape", "`services` is a mapping")
            )
            self.report.error(code, message, "write `services:` and below it `name: {replicas: 4}`", at)
            return ()
        if not section:
            self.report.error("missing", "no services are declared", "add at least one service", at)
        services = []
        for name, value in section.items():
            key_at, value_at = section.place(name)
            self.report.name(name, key_at)
            entry = (
                ServiceEntry()
                if value is None
                else self.report.entry(ServiceEntry, value, value_at, f"service {shown(name)}")
            )
            services.append(self.service(name, entry or ServiceEntry(), key_at))
        self.active_paths(section, {service.name for service in services}, services)
        return tuple(services)

    def active_paths(self, section: MarkedMap, names: set[str], services: list[Service]) -> None:
        for service in services:
            for target in service.active_paths:
                entry = section[service.name]
                if target not in names and isinstance(entry, MarkedMap):
                    message = f"{entry.spelled('active-paths')}: there is no service {shown(target)}"
                    at = entry.place("active-paths")[1]
                    self.report.error("unknown-name", message, self.report.findings.suggest(target.strip(), names), at)

    def service(self, name: str, entry: ServiceEntry, at: int) -> Service:
        return Service(
            name=name,
            image=entry.image or self.defaults.image or DEFAULT_IMAGE,
            command=entry.command,
            replicas=entry.replicas or 1,
            reuse=entry.reuse,
            supervisor=entry.supervisor,
            port=entry.port,
            active_paths=entry.active_paths,
            cpus=entry.cpus or self.defaults.cpus,
            memory_bytes=entry.memory or self.defaults.memory,
            speed=entry.speed or self.defaults.speed or 1.0,
            where=self.report.where(at),
        )

    def counted(self, services: tuple[Service, ...]) -> list[bool]:
        """Whether each service declares its number of replicas."""
        section = self.document.get("services")
        entries = section if isinstance(section, MarkedMap) else MarkedMap(0)
        return [
            isinstance(entry := entries.get(service.name), MarkedMap) and "replicas" in entry for service in services
        ]

    def bridges(self, taken: set[str]) -> tuple[Bridge, ...]:
        section = self.section("bridges")
        bridges: dict[str, Bridge] = {}
        for value, at in zip(section, section.item_at, strict=True):
            if not isinstance(value, str):
                self.report.error("bad-shape", "a bridge is just a name", "write `bridges: [ra, rb]`", at)
            elif value in bridges or value in taken:
                what = "bridge" if value in bridges else "service"
                self.report.error(
                    "duplicate-name", f"there is already a {what} {shown(value)}", "rename one of them", at
                )
            elif self.report.name(value, at):
                bridges[value] = Bridge(value, self.report.where(at))
        return tuple(bridges.values())

    def links(self, endpoints: Endpoints) -> list[Link]:
        """All declared links, one for each direction."""
        section = self.section("links")
        links: list[Link] = []
        for value, at in zip(section, section.item_at, strict=True):
            entry = self.report.entry(LinkEntry, value, at, "a link")
            if entry is None:
                if isinstance(value, MarkedMap):
                    endpoints.check_raw(value)
            elif isinstance(value, MarkedMap) and endpoints.check(value, entry.from_, entry.to):
                links.extend(self.directions(value, entry, endpoints))
        return links

    def directions(self, marked: MarkedMap, entry: LinkEntry, endpoints: Endpoints) -> list[Link]:
        if entry.one_way and (entry.down is not None or entry.back is not None):
            key = "down" if entry.down is not None else "back"
            message = f"a one-way link has no `{marked.spelled(key)}`"
            self.report.error(
                "bad-value", message, f"remove it, or `one-way`: {entry.from_} → {entry.to}", marked.place(key)[0]
            )
            return []
        shared_from = entry.shared in ("true", "from", "both") and endpoints.size(entry.from_) > 1
        shared_to = entry.shared in ("true", "to", "both") and endpoints.size(entry.to) > 1
        network = entry.network or self.defaults.network or DEFAULT_NETWORK
        where = self.report.where(marked.at)
        forward = self.properties(
            marked, entry, Properties(), (entry.up, entry.rate, self.defaults.up, self.defaults.rate)
        )
        if forward is None:
            return []
        there = Link(entry.from_, entry.to, forward, shared_from, shared_to, network=network, where=where)
        if entry.one_way:
            return [there]
        back = entry.back or Properties()
        backward = self.properties(
            marked, entry, back, (back.rate, entry.down, entry.rate, self.defaults.down, self.defaults.rate)
        )
        if backward is None:
            return []
        return [there, Link(entry.to, entry.from_, backward, shared_to, shared_from, network=network, where=where)]

    def properties(
        self, marked: MarkedMap, entry: LinkEntry, own: Properties, rates: tuple[float | None, ...]
    ) -> LinkProperties | None:
        """Properties of one direction: its own, otherwise the link's, otherwise the defaults."""
        rate = next((rate for rate in rates if rate is not None), None)
        layers = (own, entry, self.defaults)
        latency = next((layer.latency for layer in layers if layer.latency is not None), None)
        if latency is None or rate is None:
            word = "latency" if latency is None else marked.spelled("up", "rate")
            hint = f"add `{word}`"
            if latency is not None and entry.up is not None:
                word, hint = "down", "add `down`, or `one-way: true`"
            message = f"the link {shown(entry.from_)} – {shown(entry.to)} needs `{word}`"
            self.report.error("missing", message, hint, marked.at)
            return None
        background = next((layer.background for layer in layers if layer.background is not None), 0.0)
        if self.report.too_busy(marked, background, rate):
            return None
        return LinkProperties(
            latency,
            rate,
            next((layer.jitter for layer in layers if layer.jitter is not None), 0.0),
            next((layer.loss for layer in layers if layer.loss is not None), 0.0),
            next((layer.queue for layer in layers if layer.queue is not None), DEFAULT_QUEUE),
            background,
        )
