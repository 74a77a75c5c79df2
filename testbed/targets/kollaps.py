"""What Kollaps 2.0 cannot do with a topology, or does differently.

Takes a `Topology`, its `Network` and the findings so far, gives the findings for Kollaps; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from testbed.errors import Finding, Severity, error, warning
from testbed.network.graph import Network
from testbed.targets.kollaps_events import event_findings
from testbed.targets.kollaps_links import link_findings
from testbed.targets.kollaps_services import service_findings
from testbed.targets.reported import ReportedFindings
from testbed.topologies.model import DEFAULT_BOOT, DEFAULT_MAX_AGE, DEFAULT_POOL_PERIOD_S, KollapsSettings, Topology
from testbed.topologies.write_xml import what_xml_cannot_say
from testbed.units import format_duration, shown

_SEVERITY_OF_NOTE = {
    "kollaps-prolog": Severity.ERROR,
    "kollaps-unit": Severity.ERROR,
    "kollaps-rate": Severity.ERROR,
    "kollaps-one-way": Severity.ERROR,
    "kollaps-event-order": Severity.ERROR,
    "kollaps-supervisor": Severity.ERROR,
    "kollaps-active-paths": Severity.ERROR,
    "kollaps-command": Severity.WARNING,  # Swarm takes it
    "kollaps-port": Severity.WARNING,
    "kollaps-replicas": Severity.NOTE,  # Kollaps does the same as we
}
_JUDGED_ANEW = {"kollaps-one-way-event"}
"""Another element may change the other direction, which only the whole topology shows."""

_PATH_WORDS = {  # the hint of `ties` mentions Kollaps already
    "unreachable": "; Kollaps drops everything between them",
    "ties": "",
    "transit": "",
}

_MOST_AGE = 2**32 - 1
"""Kollaps keeps the maximum age in 32 bits."""


def kollaps_findings(topology: Topology, network: Network, findings: Sequence[Finding]) -> Iterator[Finding]:
    """The given findings as they apply to Kollaps, and Kollaps' own."""
    for finding in findings:
        if finding.code not in _JUDGED_ANEW:
            yield _judged(finding)
    for finding in what_xml_cannot_say(topology):
        hint = "leave it out, or take another runtime" if "YAML" in finding.hint else finding.hint
        yield error("kollaps-cannot-say", finding.message, hint, finding.where)
    yield from _setting_findings(topology.kollaps)
    yield from service_findings(topology)
    reported = ReportedFindings(topology, findings)
    yield from link_findings(topology, network, reported)
    yield from event_findings(topology, reported)


def _judged(finding: Finding) -> Finding:
    if finding.severity is Severity.NOTE and finding.code.startswith("kollaps-"):
        # A note that is not in the table still says that Kollaps behaves differently.
        return replace(finding, severity=_SEVERITY_OF_NOTE.get(finding.code, Severity.WARNING))
    if finding.code in _PATH_WORDS:
        return replace(finding, code=f"kollaps-{finding.code}", message=finding.message + _PATH_WORDS[finding.code])
    return finding


def _setting_findings(settings: KollapsSettings) -> Iterator[Finding]:
    """Findings about Kollaps' own settings, whose place in the file is not known: they stand at its beginning."""
    if settings.boot != DEFAULT_BOOT:
        yield warning(
            "kollaps-boot",
            f"the boot image is {shown(settings.boot)}: what is said here of Kollaps holds for {DEFAULT_BOOT}",
            f'write boot="{DEFAULT_BOOT}", unless your image is built from it',
        )
    if settings.max_age > _MOST_AGE:
        message = f"max age is {settings.max_age}, and Kollaps' emulation core takes {_MOST_AGE} at most"
        yield error("kollaps-max-age", message, f"leave it out, or write less: usual is {DEFAULT_MAX_AGE}")
    if settings.pool_period_s == 0:
        yield error(
            "kollaps-pool-period",
            "the pool period is 0: Kollaps divides the bytes of a period by its length",
            f"leave it out, or write more: usual is {format_duration(DEFAULT_POOL_PERIOD_S)}",
        )
