"""Prints findings the way compilers do: `file:line:column: severity: what is wrong (code)`, then what to do."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import click

from testbed.cli.output import colour
from testbed.errors import Finding, Severity

MOST_PRINTED = 100
COLUMNS = ("severity", "code", "line", "column", "message", "hint")
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def print_findings(file: str, findings: Iterable[Finding]) -> None:
    """Prints findings to stderr; coloured if the terminal supports it."""
    remaining = iter(findings)
    for finding in islice(remaining, MOST_PRINTED):
        severity = click.style(finding.severity.value, fg=_COLOURS[finding.severity], bold=True)
        place = f"{file}:{finding.where.line}:{finding.where.column}"
        click.echo(f"{place}: {severity}: {finding.message} ({finding.code})", err=True, color=colour())
        if finding.hint:
            click.echo(f"    {finding.hint}", err=True)
    more = sum(1 for _ in remaining)
    if more:
        click.echo(f"… and {more} more: `testbed validate --format json` has them", err=True)


def finding_cells(finding: Finding) -> tuple[str, str, int, int, str, str]:
    """A finding as a row of `COLUMNS`."""
    where = finding.where
    return finding.severity.value, finding.code, where.line, where.column, finding.message, finding.hint


def findings_as_json(findings: Iterable[Finding]) -> list[dict[str, str | int]]:
    return [dict(zip(COLUMNS, finding_cells(finding), strict=True)) for finding in findings]
