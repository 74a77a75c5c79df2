"""The entry point: all findings about a topology for one target.

Takes a `Topology`, its `Network` and the findings so far, gives the final list; touches nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from testbed.errors import Finding, Severity
from testbed.network.graph import Network
from testbed.targets import Target
from testbed.targets.containers import docker_findings, kubernetes_findings, swarm_findings
from testbed.targets.kollaps import kollaps_findings
from testbed.topologies.model import Topology

MOST_OF_A_KIND = 20


def judge(target: Target, topology: Topology, findings: Sequence[Finding], network: Network) -> list[Finding]:
    """The findings of loading and of the paths as they apply to a target, and the target's own; sorted by place.

    Of each kind of the target's own findings at most `MOST_OF_A_KIND` are given, then the number of the others.
    """
    match target:
        case Target.KOLLAPS:
            judged = kollaps_findings(topology, network, findings)
        case Target.SWARM:
            judged = chain(findings, swarm_findings(topology, network))
        case Target.KUBERNETES:
            judged = chain(findings, kubernetes_findings(topology, network))
        case Target.DOCKER:
            judged = chain(findings, docker_findings(topology))
    ordered = sorted(dict.fromkeys(judged), key=lambda finding: finding.where)
    return list(_bounded(ordered, f"{target}-"))


def _bounded(findings: Iterable[Finding], prefix: str) -> Iterator[Finding]:
    """Drops findings of the target beyond the first of their kind; one finding at the end counts them."""
    counts: Counter[tuple[Severity, str]] = Counter()
    first_left_out: dict[tuple[Severity, str], Finding] = {}
    for finding in findings:
        kind = (finding.severity, finding.code)
        counts[kind] += finding.code.startswith(prefix) and finding.severity is not Severity.NOTE
        if counts[kind] > MOST_OF_A_KIND:
            first_left_out.setdefault(kind, finding)
        else:
            yield finding
    for (severity, code), finding in first_left_out.items():
        more = counts[severity, code] - MOST_OF_A_KIND
        yield Finding(severity, code, f"{more} more of this kind, from here on", finding.hint, finding.where)
