"""Checks that a topology's node events are possible: for example, only present nodes can leave. Pure.

Counts nodes per service over time: an event moves nodes between absent, present and disconnected. An event with a count
must find that many nodes; one that names nodes must find any of them. The automatic end of an event is never reported.
Events with a count over several services are not followed, since the seed chooses the services.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from testbed.errors import Where, error
from testbed.topologies.entries import Report
from testbed.topologies.model import MAX_NODES, UNDONE_BY, NodeAction, NodeEvent, Service, Topology, later
from testbed.units import format_duration, shown

_MOST_STEPS = 1_000_000
_MOST_FOLLOWED = 50_000_000
_GOES = (NodeAction.LEAVE, NodeAction.CRASH)


def replicas_needed(services: Iterable[Service], events: Iterable[NodeEvent]) -> dict[str, int]:
    """Replicas that the joins of each service need at once (without `reuse`: in total), for services that only join."""
    by_service: dict[str, list[NodeEvent]] = defaultdict(list)
    for event in events:
        if len(event.targets) == 1:
            by_service[event.targets[0]].append(event)
    needed: dict[str, int] = {}
    for service in services:
        present = peak = joined = 0
        occurrences = ((at_s, event) for event in by_service.get(service.name, ()) for at_s in event.when.times())
        for _at_s, event in sorted(occurrences, key=lambda timed: timed[0]):
            amount = event.count or service.replicas
            if event.action is NodeAction.JOIN:
                present += amount
                joined += amount
                peak = max(peak, present)
            elif event.action in _GOES:
                present -= amount
        if joined:
            needed[service.name] = max(1, peak if service.reuse else joined)
    return needed


@dataclass(frozen=True, slots=True)
class _Step:
    """One occurrence of an event, restricted to the nodes of one service."""

    at_s: float
    action: NodeAction
    service: str
    amount: int
    needed: int
    """How many nodes it must find: all of a count, one of those named, none for the end of an event."""
    where: Where | None


@dataclass(slots=True)
class _Tally:
    """Counts a service's nodes by state."""

    replicas: int
    reuse: bool
    present: int
    joined: int
    disconnected: int = 0

    def available(self, action: NodeAction) -> int:
        """Number of nodes that the action applies to."""
        match action:
            case NodeAction.JOIN:
                return self.replicas - (self.present if self.reuse else self.joined)
            case NodeAction.LEAVE | NodeAction.CRASH:
                return self.present
            case NodeAction.DISCONNECT:
                return self.present - self.disconnected
            case NodeAction.RECONNECT:
                return self.disconnected
            case _:
                return self.replicas  # pausing changes no count; `no-effect` is checked elsewhere

    def apply(self, step: _Step) -> tuple[str, str] | None:
        """Applies a step; returns the code and message of its problem, if any."""
        available = self.available(step.action)
        problem: tuple[str, str] | None = None
        if available < step.needed:
            verb = f"{step.amount} of {shown(step.service)} {step.action.value}"
            if step.action in _GOES and not self.joined:
                problem = "leave-before-join", f"{verb} before they join"
            elif step.action is NodeAction.JOIN:
                problem = "event-count", f"{verb}, more than its {self.replicas} replicas"
            else:
                problem = "event-count", f"{verb}, where only {available} can"
        moved = min(step.amount, available)
        match step.action:
            case NodeAction.JOIN:
                self.present += moved
                self.joined += moved
            case NodeAction.LEAVE | NodeAction.CRASH:
                self.present -= moved
                self.disconnected = min(self.disconnected, self.present)
            case NodeAction.DISCONNECT:
                self.disconnected += moved
            case NodeAction.RECONNECT:
                self.disconnected -= moved
            case _:
                pass
        return problem


def check_events(topology: Topology, report: Report) -> None:
    """Adds a finding for the first event of each service that finds too few nodes."""
    events = [event for event in topology.events if isinstance(event, NodeEvent)]
    if not events:
        return
    absent = starting_absent(topology)
    services = len(topology.services)
    if nodes_followed(topology, events) > _MOST_FOLLOWED or nodes_followed(topology, events, services) > _MOST_STEPS:
        hint = "name fewer nodes in repeated events, or let them happen less often"
        report.findings.add(error("too-many-events", "the events concern too many services too often", hint, None))
        return
    tallies: dict[str, _Tally] = {}
    for service in topology.services:
        present = service.replicas - sum(1 for rank in topology.select(service.name) if rank in absent)
        tallies[service.name] = _Tally(service.replicas, service.reuse, present, present)
    told: set[str] = set()
    for step in sorted(_steps(topology, events), key=lambda step: (step.at_s, step.needed > 0)):  # ends first
        problem = tallies[step.service].apply(step)
        if problem is not None and step.service not in told:
            told.add(step.service)
            code, message = problem
            hint = "check the times and numbers of this service's events"
            message = f"at {format_duration(step.at_s)}, {message}"
            report.findings.add(error(code, message, hint, step.where))


def nodes_followed(topology: Topology, events: Iterable[NodeEvent], at_most: int = MAX_NODES) -> int:
    """Number of nodes that all occurrences of the events name, counting at most `at_most` for each."""
    return sum(event.when.count() * min(at_most, len(topology.select_all(event.targets))) for event in events)


def starting_absent(topology: Topology) -> frozenset[int]:
    """Ranks that are absent at the start: those whose first join, leave or crash is a join."""
    absent: set[int] = set()
    decided: set[int] = set()
    seen: set[tuple[str, ...]] = set()
    events = [event for event in topology.events if isinstance(event, NodeEvent)]
    for event in sorted(events, key=lambda event: event.when.at_s):
        decides = event.action is NodeAction.JOIN or event.action in _GOES
        if not decides or event.targets in seen or (event.count is not None and _several_services(topology, event)):
            continue
        seen.add(event.targets)
        fresh = set(topology.select_all(event.targets)) - decided
        decided |= fresh
        if event.action is NodeAction.JOIN:
            absent |= fresh
    return frozenset(absent)


def _several_services(topology: Topology, event: NodeEvent) -> bool:
    ranks = topology.select_all(event.targets)
    return topology.nodes[ranks[0]].service is not topology.nodes[ranks[-1]].service


def _steps(topology: Topology, events: Sequence[NodeEvent]) -> Iterator[_Step]:
    """All occurrences of events whose effect on each service's counts is known."""
    per_targets: dict[tuple[str, ...], Counter[str]] = {}
    for event in events:
        if event.targets not in per_targets:
            ranks = topology.select_all(event.targets)
            per_targets[event.targets] = Counter(topology.nodes[rank].service.name for rank in ranks)
        per_service = per_targets[event.targets]
        if event.count is not None and len(per_service) > 1:
            continue
        undo = UNDONE_BY.get(event.action)
        for at_s in event.when.times():
            for service, named in per_service.items():
                amount = event.count or named
                yield _Step(at_s, event.action, service, amount, event.count or 1, event.where)
                if event.for_s is not None and undo is not None:
                    yield _Step(later(at_s, event.for_s), undo, service, amount, 0, event.where)
