"""A topology → an equivalent one that Kollaps runs as intended, or all reasons why there is none. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from testbed.errors import Finding, InvalidInput, Severity, Where, has_errors, note
from testbed.manifests.kollaps.events import in_order, why_left, with_joins, written_out
from testbed.manifests.kollaps.links import in_both_directions, with_latency, without_sharing
from testbed.manifests.kollaps.services import Rewritten, one_network, whole_services, with_dashboard, without_devices
from testbed.network.findings import path_findings
from testbed.network.graph import Network, expand
from testbed.network.paths import compute_paths
from testbed.targets import Target
from testbed.targets.rules import judge
from testbed.topologies.model import BridgeEvent, LinkEvent, Routing, Topology

_STEPS = (
    whole_services,
    with_dashboard,
    without_devices,
    one_network,
    without_sharing,
    in_both_directions,
    written_out,
    with_joins,
    in_order,
)
_TIES, _ZERO, _UPPER_CASE = "kollaps-ties", "kollaps-zero-latency", "kollaps-upper-case"
_CANNOT_SAY = "kollaps-cannot-say"
_MOST_NODES_COMPARED = 256
"""Computing all their paths twice takes well below a second."""


def rewritten(topology: Topology, file: str, *, lower_case: bool) -> Rewritten:
    """An equivalent topology without errors for Kollaps, and notes; raises InvalidInput about `file`."""
    said: list[Finding] = []
    for step in _STEPS:
        topology, more = step(topology)
        said += more
    judged, network = _judged(topology)
    if any(finding.code == _ZERO for finding in judged):
        topology, more = with_latency(topology)
        said += more
        judged, network = _judged(topology)
    if any(finding.code == _TIES for finding in judged) and _is_decided_by_latency(topology, network):
        message = "Kollaps is told to route by latency, which decides between routes of as many hops, all as here"
        said.append(note(_TIES, message))
        topology = replace(topology, routing=Routing.LATENCY)
        judged, network = _judged(topology)
    judged = [_as_it_matters(each, lower_case=lower_case) for each in judged]
    judged = _with_causes(judged, why_left(topology))
    if not lower_case:
        judged = [each for each in judged if each.code != _UPPER_CASE]
    if has_errors(judged):
        raise InvalidInput(file, _errors_first(judged))
    return topology, [*said, *judged]


def _judged(topology: Topology) -> tuple[Sequence[Finding], Network]:
    network = expand(topology)
    return judge(Target.KOLLAPS, topology, path_findings(topology, network), network), network


def _as_it_matters(finding: Finding, *, lower_case: bool) -> Finding:
    """Raises warnings to errors that a manifest must not have: random routes, names that an orchestrator rejects."""
    if finding.code == _TIES or (finding.code == _UPPER_CASE and lower_case):
        return replace(finding, severity=Severity.ERROR)
    return finding


def _with_causes(findings: Iterable[Finding], causes: Mapping[Where, str]) -> list[Finding]:
    """Replaces findings about repeated and lasting events by the reasons why they were not written out."""
    return [
        replace(each, message=f"Kollaps' XML cannot say {causes[each.where]}")
        if each.code == _CANNOT_SAY and each.where in causes
        else each
        for each in findings
    ]


def _is_decided_by_latency(topology: Topology, network: Network) -> bool:
    """Whether routing by latency has no ties and keeps the path of every pair."""
    is_still = not any(isinstance(event, LinkEvent | BridgeEvent) for event in topology.events)
    if topology.routing is not Routing.HOPS or not is_still or network.node_count > _MOST_NODES_COMPARED:
        return False
    other = replace(topology, routing=Routing.LATENCY)
    by_latency = expand(other)
    if any(finding.code == "ties" for finding in path_findings(other, by_latency)):
        return False
    ranks = list(range(network.node_count))
    ours, theirs = compute_paths(network, ranks), compute_paths(by_latency, ranks)
    return np.array_equal(ours.hops, theirs.hops) and all(
        list(ours.links(source, dest)) == list(theirs.links(source, dest))
        for source in ranks
        for dest in ranks
        if ours.hops[source, dest] > 0
    )


def _errors_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (finding.severity is not Severity.ERROR, finding.where))
