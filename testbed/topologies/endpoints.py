"""Resolves the ends of links and the targets of events. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

from testbed.errors import error
from testbed.topologies.entries import Report
from testbed.topologies.marked import MarkedMap
from testbed.topologies.model import Link, Topology, is_pattern
from testbed.topologies.source import Rejected
from testbed.units import shown

MAX_SELECTED = 20_000_000
"""Bound of nodes visited for all distinct selectors of a file together: limits time and memory."""

Member = int | str
"""A node by rank, or a bridge by name."""


class Endpoints:
    """Resolves names to a topology's services, nodes and bridges, and reports unknown ones."""

    def __init__(self, topology: Topology, report: Report) -> None:
        self.topology = topology
        self.report = report
        self._members: dict[str, frozenset[Member]] = {}
        self._matched: dict[tuple[str, ...], int] = {}
        self._selected = 0

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (*(service.name for service in self.topology.services), *self.topology.bridge_names)

    @cached_property
    def _supervisors(self) -> set[str]:
        return {service.name for service in self.topology.services if service.supervisor}

    def members(self, name: str) -> frozenset[Member]:
        """The nodes and bridges that a name stands for."""
        if name not in self._members:
            bridge = name in self.topology.bridge_names
            self._members[name] = frozenset([name]) if bridge else frozenset(self.topology.select(name))
            self._selected += len(self.topology.nodes) if is_pattern(name) else 1
            self._selected += len(self._members[name])
            if self._selected > MAX_SELECTED:
                message = f"following all selectors would mean looking at more than {MAX_SELECTED} nodes"
                raise Rejected(error("too-large", message, "name services, not single nodes and patterns"))
        return self._members[name]

    def size(self, name: str) -> int:
        return len(self.members(name))

    def matched(self, targets: tuple[str, ...]) -> int:
        """How many nodes a list of selectors names."""
        if len(targets) == 1:
            return len(self.members(targets[0]))
        if targets not in self._matched:
            self._matched[targets] = len(frozenset[Member]().union(*(self.members(target) for target in targets)))
        return self._matched[targets]

    def known(self, name: str, what: str, at: int, *, bridges: bool) -> bool:
        """Whether the name is known; a finding if not."""
        if name in self._supervisors:
            hint = "leave it out: a supervisor is not part of the emulated network"
            self.report.error("supervisor", f"{what}: {shown(name)} is a supervisor, not a node", hint, at)
            return False
        if name in self.topology.bridge_names and not bridges:
            self.report.error(
                "unknown-name", f"{what}: {shown(name)} is a bridge, not a node", "use `bridge` with `state`", at
            )
            return False
        if not self.size(name):
            kind = "service, node or bridge" if bridges else "service or node"
            hint = self.report.findings.suggest(name, self.names)
            service, _, replica = name.rpartition(".")
            if replica.isdigit() and self.size(service):
                hint = f"{shown(service)} has the replicas 0 to {self.size(service) - 1}"
            self.report.error("unknown-name", f"{what}: there is no {kind} {shown(name)}", hint, at)
            return False
        return True

    def check_raw(self, entry: MarkedMap) -> None:
        """Checks the ends of a link that has other errors."""
        for key in ("from", "to"):
            if isinstance(value := entry.get(key), str):
                self.known(value, entry.spelled(key), entry.place(key)[1], bridges=True)

    def check(self, entry: MarkedMap, origin: str, dest: str) -> bool:
        """Whether a link can join the two; a finding if not."""
        known = [
            bool(self.members(name)) or self.known(name, entry.spelled(key), entry.place(key)[1], bridges=True)
            for key, name in (("from", origin), ("to", dest))
        ]
        if not all(known):
            return False
        if not self.members(origin).isdisjoint(self.members(dest)):
            message = f"a link from {shown(origin)} to {shown(dest)} would join something to itself"
            self.report.error(
                "self-link", message, "to join the replicas of a service, put a bridge between them", entry.at
            )
            return False
        return True


class LinkIndex:
    """Finds the links between the two ends of an event, by exact names or by members."""

    def __init__(self, endpoints: Endpoints, links: Iterable[Link]) -> None:
        self._endpoints = endpoints
        self._exact: set[tuple[str, str]] = set()
        self._single_dests: dict[Member, set[Member]] = defaultdict(set)
        self._group_dests: dict[Member, set[str]] = defaultdict(set)
        self._waiting: list[tuple[str, str]] = []
        for link in links:
            self.add(link)

    def add(self, link: Link) -> None:
        ends = (link.origin, link.dest)
        if ends not in self._exact:
            self._exact.add(ends)
            self._waiting.append(ends)

    def covers(self, origin: str, dest: str) -> bool:
        """Whether any link leads from one of the first to one of the second."""
        if (origin, dest) in self._exact:
            return True
        self._sort_in()
        wanted = self._endpoints.members(dest)
        for member in self._endpoints.members(origin):
            if not wanted.isdisjoint(self._single_dests.get(member, ())):
                return True
            if any(not wanted.isdisjoint(self._endpoints.members(end)) for end in self._group_dests.get(member, ())):
                return True
        return False

    def _sort_in(self) -> None:
        """Indexes links by member, on the first query for a part of a link."""
        for origin, dest in self._waiting:
            dests = self._endpoints.members(dest)
            for member in self._endpoints.members(origin):
                if len(dests) == 1:
                    self._single_dests[member].update(dests)
                else:
                    self._group_dests[member].add(dest)
        self._waiting.clear()
