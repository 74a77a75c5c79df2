"""Whether a topology's node events can happen at all: nobody leaves who is not there. Pure.

Counts nodes per service over time: an event on a whole service, or on some of its nodes, moves that many nodes
between absent, present and disconnected. Which nodes an event with a count picks is drawn later from the seed; the
counts do not depend on it. An event with a count over several services is checked against their sum only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from testbed.errors import Where, error
from testbed.topologies.entries import Report
from testbed.topologies.model import UNDONE_BY, NodeAction, NodeEvent, Service, Topology
from testbed.units import format_duration, shown

_MOST_STEPS = 1_000_000
_GOES = (NodeAction.LEAVE, NodeAction.CRASH)


def replicas_needed(services: Iterable[Service], events: Iterable[NodeEvent]) -> dict[str, int]:
    """For every service that joins as a whole: how many replicas its joins need at once (without `reuse`, in all)."""
    by_service: dict[str, list[NodeEvent]] = defaultdict(list)
    for event in events:
        if len(event.targets) == 1:
            by_service[event.targets[0]].append(event)
    needed: dict[str, int] = {}
    for service in services:
        present = peak = joined = 0
        for event in sorted(by_service.get(service.name, ()), key=lambda event: event.when.at_s):
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
    """One occurrence of an event, for the nodes of one service."""

    at_s: float
    action: NodeAction
    service: str
    amount: int
    where: Where | None


@dataclass(slots=True)
class _Tally:
    """How many nodes of a service are in which state."""

    replicas: int
    reuse: bool
    present: int
    joined: int
    disconnected: int = 0

    def apply(self, step: _Step) -> tuple[str, str] | None:
        """Take a step; the code and the sentence of what is wrong with it."""
        verb = f"{step.amount} of {shown(step.service)} {step.action.value}"
        if step.action is NodeAction.JOIN:
            self.present += step.amount
            self.joined += step.amount
            if self.present > self.replicas or (not self.reuse and self.joined > self.replicas):
                self.present = min(self.present, self.replicas)
                return "event-count", f"{verb}, more than its {self.replicas} replicas"
        elif step.action in _GOES:
            self.present -= step.amount
            if self.present < 0:
                self.present = 0
                return (
                    ("event-count", f"{verb}, more than are there")
                    if self.joined
                    else ("leave-before-join", f"{verb} before they join")
                )
            self.disconnected = min(self.disconnected, self.present)
        elif step.action is NodeAction.DISCONNECT:
            self.disconnected += step.amount
            if self.disconnected > self.present:
                self.disconnected = self.present
                return "event-count", f"{verb}, more than are connected"
        elif step.action is NodeAction.RECONNECT:
            self.disconnected -= step.amount
            if self.disconnected < 0:
                self.disconnected = 0
                return "event-count", f"{verb}, more than are disconnected"
        return None


def check_events(topology: Topology, report: Report) -> None:
    """Add a finding for the first event of each service that finds too few nodes."""
    events = [event for event in topology.events if isinstance(event, NodeEvent)]
    if not events:
        return
    absent = starting_absent(topology)
    if _work(topology, events) > _MOST_STEPS:
        hint = "name fewer nodes in repeated events, or let them happen less often"
        report.findings.append(error("too-many-events", "the events concern too many services too often", hint, None))
        return
    tallies: dict[str, _Tally] = {}
    for service in topology.services:
        present = service.replicas - sum(1 for rank in topology.select(service.name) if rank in absent)
        tallies[service.name] = _Tally(service.replicas, service.reuse, present, present)
    told: set[str] = set()
    for step in sorted(_steps(topology, events), key=lambda step: step.at_s):
        problem = tallies[step.service].apply(step)
        if problem is not None and step.service not in told:
            told.add(step.service)
            code, message = problem
            hint = "check the times and numbers of this service's events"
            message = f"at {format_duration(step.at_s)}, {message}"
            report.findings.append(error(code, message, hint, step.where))


def _work(topology: Topology, events: Sequence[NodeEvent]) -> int:
    """At most how many steps there will be."""
    services = len(topology.services)
    return sum(event.when.count() * min(services, len(topology.select_all(event.targets))) for event in events)


def starting_absent(topology: Topology) -> frozenset[int]:
    """The ranks that are not there at the start: those whose first join, leave or crash is a join."""
    absent: set[int] = set()
    decided: set[int] = set()
    events = [event for event in topology.events if isinstance(event, NodeEvent)]
    for event in sorted(events, key=lambda event: event.when.at_s):
        if event.action is NodeAction.JOIN or event.action in _GOES:
            fresh = set(topology.select_all(event.targets)) - decided
            decided |= fresh
            if event.action is NodeAction.JOIN:
                absent |= fresh
    return frozenset(absent)


def _steps(topology: Topology, events: Sequence[NodeEvent]) -> Iterator[_Step]:
    """Every occurrence of every event whose effect on each service's count is known."""
    for event in events:
        per_service = Counter(topology.nodes[rank].service.name for rank in topology.select_all(event.targets))
        if event.count is not None:
            if len(per_service) > 1:
                continue  # how many of which service is for the seed to say
            per_service = Counter(dict.fromkeys(per_service, event.count))
        undo = UNDONE_BY.get(event.action)
        for time in event.when.times():
            for service, amount in per_service.items():
                yield _Step(time, event.action, service, amount, event.where)
                if event.for_s is not None and undo is not None:
                    yield _Step(time + event.for_s, undo, service, amount, event.where)
