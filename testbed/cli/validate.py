"""`testbed validate`: all findings about a topology at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from testbed.cli.findings import COLUMNS, finding_cells, findings_as_json, print_findings
from testbed.cli.output import Format, format_option, print_csv, print_json
from testbed.cli.topology_file import load_named, topology_argument
from testbed.errors import ExitCode, Finding, Severity, has_errors
from testbed.targets import Target

if TYPE_CHECKING:
    from testbed.network.graph import Network
    from testbed.topologies.model import Topology


@click.command(name="validate")
@topology_argument
@click.option(
    "--for",
    "target",
    type=click.Choice([target.value for target in Target]),
    callback=lambda _context, _parameter, value: value and Target(value),
    help="Also what this runtime cannot do with it, or would do otherwise.",
)
@format_option
def command(file: str, target: Target | None, output_format: Format) -> None:
    """Report all problems of FILE at once; the exit status is 3 if there are errors.

    \b
    Example:
      testbed validate topologies/wan256.xml
      testbed validate my.yaml --for kollaps --format json
    """
    from testbed.network.findings import path_findings
    from testbed.network.graph import expand
    from testbed.targets.rules import judge

    loaded = load_named(file)
    findings: Sequence[Finding] = loaded.findings
    network = None
    if loaded.topology is not None:
        network = expand(loaded.topology)
        findings = [*findings, *path_findings(loaded.topology, network)]
        if target is not None:
            findings = judge(target, loaded.topology, findings, network)
    match output_format:
        case Format.JSON:
            ok = not has_errors(findings)
            print_json({"file": loaded.file, "ok": ok, "findings": findings_as_json(findings)})
        case Format.CSV:
            print_csv(COLUMNS, map(finding_cells, findings))
        case Format.TABLE:
            print_findings(loaded.file, findings)
            click.echo(f"{loaded.file}: {_summary(loaded.topology, network, findings)}")
    if has_errors(findings):
        click.get_current_context().exit(ExitCode.INVALID_INPUT)


def _summary(topology: Topology | None, network: Network | None, findings: Sequence[Finding]) -> str:
    """`ok: 256 nodes, 10 bridges, 602 links` or `3 errors, 1 warning`."""
    errors, warnings = (
        _many(sum(finding.severity is severity for finding in findings), severity.value)
        for severity in (Severity.ERROR, Severity.WARNING)
    )
    if topology is None or network is None or has_errors(findings):
        return ", ".join(words for words in (errors, warnings) if words)
    sizes = ", ".join(
        _many(size, word) or f"0 {word}s"
        for size, word in (
            (len(topology.nodes), "node"),
            (len(topology.bridges), "bridge"),
            (network.link_count, "link"),
        )
    )
    return f"ok: {sizes}" + (f"; {warnings}" if warnings else "")


def _many(count: int, word: str) -> str:
    """`1 error`, `3 errors`; nothing for none."""
    return "" if not count else f"{count} {word}{'' if count == 1 else 's'}"
