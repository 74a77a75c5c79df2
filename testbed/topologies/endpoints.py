"""What the ends of links and the targets of events name. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from testbed.errors import did_you_mean
from testbed.topologies.entries import Report
from testbed.topologies.marked import MarkedMap
from testbed.topologies.model import Link, Topology
from testbed.units import shown

Member = int | str
"""A node by rank, or a bridge by name."""


class Endpoints:
    """Resolves names against a topology's services, nodes and bridges, and reports those that are nothing."""

    def __init__(self, topology: Topology, report: Report) -> None:
        self.topology = topology
        self.report = report
        self._members: dict[str, frozenset[Member]] = {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (*(service.name for service in self.topology.services), *self.topology.bridge_names)

    @cached_property
    def _supervisors(self) -> set[str]:
        return {service.name for service in self.topology.services if service.supervisor}

    def members(self, name: str) -> frozenset[Member]:
        """The nodes and bridges behind a name."""
        if name not in self._members:
            bridge = name in self.topology.bridge_names
            self._members[name] = frozenset([name]) if bridge else frozenset(self.topology.select(name))
        return self._members[name]

    def size(self, name: str) -> int:
        return 1 if name in self.topology.bridge_names else len(self.topology.select(name))

    def known(self, name: str, what: str, at: int, *, bridges: bool) -> bool:
        """Whether the name stands for something; a finding if not."""
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
            hint = did_you_mean(name, self.names)
            service, _, replica = name.rpartition(".")
            if replica.isdigit() and self.size(service):
                hint = f"{shown(service)} has the replicas 0 to {self.size(service) - 1}"
            self.report.error("unknown-name", f"{what}: there is no {kind} {shown(name)}", hint, at)
            return False
        return True

    def check_raw(self, entry: MarkedMap) -> None:
        """The ends of a link that is wrong in other ways."""
        for key in ("from", "to"):
            if isinstance(value := entry.get(key), str):
                self.known(value, entry.spelled(key), entry.place(key)[1], bridges=True)

    def check(self, entry: MarkedMap, origin: str, dest: str) -> bool:
        """Whether a link can join the two."""
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
    """Finds the declared links that an event's two ends name, exactly or in part."""

    def __init__(self, endpoints: Endpoints, links: Sequence[Link]) -> None:
        self._endpoints = endpoints
        self._links = links

    @cached_property
    def _exact(self) -> set[tuple[str, str]]:
        return {(link.origin, link.dest) for link in self._links}

    @cached_property
    def _dests_by_origin(self) -> dict[Member, set[str]]:
        index: dict[Member, set[str]] = defaultdict(set)
        for link in self._links:
            for member in self._endpoints.members(link.origin):
                index[member].add(link.dest)
        return index

    def covers(self, origin: str, dest: str) -> bool:
        """Whether any declared link leads from one of the first to one of the second."""
        if (origin, dest) in self._exact:
            return True
        wanted = self._endpoints.members(dest)
        dests: Iterable[str] = {
            declared for member in self._endpoints.members(origin) for declared in self._dests_by_origin.get(member, ())
        }
        return any(not wanted.isdisjoint(self._endpoints.members(declared)) for declared in dests)
