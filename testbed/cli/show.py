"""`testbed show`: the contents of a topology."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING

import click

from testbed.cli.findings import findings_as_json, print_findings
from testbed.cli.moment import Moment, moment_options
from testbed.cli.output import Cell, Format, format_option, print_csv, print_json, print_table
from testbed.cli.topology_file import open_topology, topology_argument
from testbed.errors import Finding
from testbed.topologies.two_way import count_events
from testbed.units import format_duration, format_latency, format_loss, format_number, format_rate, format_size

if TYPE_CHECKING:
    from testbed.network.graph import Network
    from testbed.network.summary import PathSummary, Range
    from testbed.topologies.model import Service, Topology

_MOST_LINES = 40


@click.command(name="show")
@topology_argument
@moment_options
@format_option
def command(file: str, moment: Moment, output_format: Format) -> None:
    """Show services, nodes, bridges, links, events, ranges of path properties and warnings of FILE.

    \b
    Example:
      testbed show topologies/wan256.xml
      testbed show topologies/flaky-link8.xml --at 45s
      testbed show my.yaml --format json
    """
    from testbed.network.findings import path_findings
    from testbed.network.graph import expand
    from testbed.network.summary import summarise

    opened = open_topology(file)
    topology = opened.topology
    network = expand(topology)
    findings = [*opened.findings, *path_findings(topology, network)]
    counts, summary = _counts(topology, network), summarise(moment.of(topology, network))
    match output_format:
        case Format.JSON:
            print_json(_as_json(opened.shown, topology, counts, summary, findings))
        case Format.CSV:
            print_csv(("what", "value"), [*counts.items(), *_flat(summary)])
            print_findings(opened.shown, findings)
        case Format.TABLE:
            _print_tables(topology, counts, summary, moment)
            if summary.sources < network.node_count:
                click.echo(f"paths: from a sample of {summary.sources} of {network.node_count} sources", err=True)
            print_findings(opened.shown, findings)


def _counts(topology: Topology, network: Network) -> dict[str, int]:
    return {
        "services": len(topology.services),
        "nodes": len(topology.nodes),
        "bridges": len(topology.bridges),
        "links": network.link_count,
        "events": count_events(topology),
    }


def _as_json(
    shown: str, topology: Topology, counts: dict[str, int], summary: PathSummary, findings: list[Finding]
) -> dict[str, object]:
    return {
        "file": shown,
        "name": topology.name,
        "routing": topology.routing.value,
        "counts": counts,
        **{key: count for key, count in counts.items() if key != "nodes"},
        "nodes": [{"rank": node.rank, "name": node.name, "service": node.service.name} for node in topology.nodes],
        "paths": {
            "latency_ms": _range_json(summary.latency_ms),
            "bandwidth_bps": _range_json(summary.bandwidth_bps),
            "loss": _range_json(summary.loss),
            "reachable_pairs": summary.reachable_pairs,
            "pairs": summary.pairs,
            "sampled_sources": summary.sources if summary.sources < len(topology.nodes) else None,
        },
        "findings": findings_as_json(findings),
    }


def _range_json(found: Range | None) -> dict[str, float | None]:
    """Null where no pair has a path; an unlimited bandwidth is null as well."""
    if found is None:
        return dict.fromkeys(("min", "median", "max"))
    return {name: None if value == float("inf") else value for name, value in asdict(found).items()}


def _flat(summary: PathSummary) -> list[tuple[str, Cell]]:
    ranges = {"latency_ms": summary.latency_ms, "bandwidth_bps": summary.bandwidth_bps, "loss": summary.loss}
    cells: list[tuple[str, Cell]] = [
        (f"{name}_{which}", value) for name, found in ranges.items() for which, value in _range_json(found).items()
    ]
    return [*cells, ("reachable_pairs", summary.reachable_pairs), ("pairs", summary.pairs)]


def _print_tables(topology: Topology, counts: dict[str, int], summary: PathSummary, moment: Moment) -> None:
    from testbed.topologies.write_yaml import event_lines, link_lines

    click.echo(f"{topology.name}, routing by {topology.routing.value}")
    print_table(("what", "how many"), counts.items())
    services = (
        (each.name, each.replicas, _ranks(topology, each), each.image, _remarks(each)) for each in topology.services
    )
    print_table(("service", "replicas", "ranks", "image", "remarks"), services)
    _print_lines("links", link_lines(topology))
    _print_lines("events", event_lines(topology))
    ranges = (
        ("latency", *_range_cells(summary.latency_ms, lambda value: format_latency(round(value, 3)))),
        ("bandwidth", *_range_cells(summary.bandwidth_bps, format_rate)),
        ("loss", *_range_cells(summary.loss, lambda value: format_loss(round(value, 6)))),
    )
    when = "" if moment.at_s is None else f"at {format_duration(moment.at_s)}, "
    click.echo(f"{when}{summary.reachable_pairs} of {summary.pairs} ordered pairs of nodes have a path")
    print_table(("path", "min", "median", "max"), ranges)


def _remarks(service: Service) -> str:
    """Remarks on a service: its device, or that it is a supervisor."""
    remarks = ["supervisor, not a node"] if service.supervisor else []
    if service.cpus is not None:
        remarks.append(f"{format_number(service.cpus)} cpu{'s' if service.cpus != 1 else ''}")
    if service.memory_bytes is not None:
        remarks.append(format_size(service.memory_bytes))
    if service.speed != 1.0:
        remarks.append(f"speed {format_number(service.speed)}")
    return ", ".join(remarks)


def _ranks(topology: Topology, service: Service) -> str:
    ranks = topology.select(service.name)
    return f"{ranks[0]}–{ranks[-1]}" if len(ranks) > 1 else "".join(map(str, ranks))


def _print_lines(what: str, lines: Iterator[str]) -> None:
    """Prints the first lines, as in YAML."""
    shown = list(islice(lines, _MOST_LINES))
    if shown:
        click.echo(f"{what}:")
        click.echo("\n".join(f"  {line}" for line in shown))
        if next(lines, None) is not None:
            click.echo("  … and more: `testbed convert` writes them all")
        click.echo()


def _range_cells(found: Range | None, shown: Callable[[float], str]) -> list[str]:
    return ["–"] * 3 if found is None else [shown(value) for value in (found.min, found.median, found.max)]
