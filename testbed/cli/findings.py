"""Prints findings the way compilers do: `file:line:column: severity: what is wrong (code)`, then what to do."""

from __future__ import annotations

from collections.abc import Iterable

import click

from testbed.errors import Finding, Severity

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def print_findings(file: str, findings: Iterable[Finding]) -> None:
    """To stderr; coloured on a terminal."""
    for finding in findings:
        severity = click.style(finding.severity.value, fg=_COLOURS[finding.severity], bold=True)
        place = f"{file}:{finding.where.line}:{finding.where.column}"
        click.echo(f"{place}: {severity}: {finding.message} ({finding.code})", err=True)
        if finding.hint:
            click.echo(f"    {finding.hint}", err=True)
