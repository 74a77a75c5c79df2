"""`testbed paths`: the end-to-end properties of pairs of nodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import click

from testbed.cli.moment import Moment, moment_options
from testbed.cli.output import Format, format_option, print_csv, print_table
from testbed.cli.topology_file import open_topology, topology_argument
from testbed.topologies.unknown_node import unknown_node
from testbed.units import UNLIMITED, format_latency, format_loss, format_rate

if TYPE_CHECKING:
    from testbed.network.graph import Network
    from testbed.network.paths import Paths
    from testbed.network.summary import PathRow
    from testbed.topologies.model import Topology

COLUMNS = ("from", "to", "latency_ms", "jitter_ms", "loss", "bandwidth_bps", "hops", "reachable")
_MOST_TABLE_ROWS = 2000
"""A longer table takes seconds to lay out, and is too long to read."""
_SAMPLE = 16
"""Nodes on either side of the sample that is shown instead."""


@click.command(name="paths")
@topology_argument
@click.option("--from", "source", metavar="NODE", help="Only paths from this node, service or pattern.")
@click.option("--to", "dest", metavar="NODE", help="Only paths to this node, service or pattern.")
@moment_options
@format_option
def command(file: str, source: str | None, dest: str | None, moment: Moment, output_format: Format) -> None:
    """Show end-to-end latency, jitter, loss and bandwidth of every ordered pair of nodes in FILE.

    Of more than 2000 pairs a table shows a sample; JSON and CSV always have all.

    In JSON, the latency, jitter and hops of a pair without a path are null, its loss is 1 and its bandwidth 0; a
    bandwidth of null is unlimited.

    \b
    Example:
      testbed paths topologies/wan16.xml --from tokyo.0
      testbed paths topologies/flaky-link8.xml --at 45s
      testbed paths topologies/wan16.xml --format json
    """
    from testbed.network.graph import expand

    topology = open_topology(file).topology
    sources, dests = _selected(topology, source, "--from"), _selected(topology, dest, "--to")
    network = moment.of(topology, expand(topology))
    match output_format:
        case Format.JSON:
            _print_json(topology, network, sources, dests)
        case Format.CSV:
            name = network.names
            found = (row for _, row in _found(network, sources, dests))
            print_csv(COLUMNS, ((name[row.source], name[row.dest], *row[2:]) for row in found))
        case Format.TABLE:
            _print_table(network, sources, dests)


def _selected(topology: Topology, selector: str | None, option: str) -> Sequence[int]:
    if selector is None:
        return range(len(topology.nodes))
    ranks = topology.select(selector)
    if not ranks:
        raise unknown_node(selector, ((node.name, node.service.name) for node in topology.nodes), before=f"{option}: ")
    return ranks


def _found(network: Network, sources: Sequence[int], dests: Sequence[int]) -> Iterator[tuple[Paths, PathRow]]:
    """All pairs by source, for a block of sources at a time."""
    from testbed.network.summary import blocks, rows

    return ((paths, row) for paths in blocks(network, sources) for row in rows(paths, dests))


def _print_json(topology: Topology, network: Network, sources: Sequence[int], dests: Sequence[int]) -> None:
    """Prints one source's paths at a time: all pairs of a thousand nodes would not fit into memory as objects."""
    names = network.names[: network.node_count]
    write = sys.stdout.write
    write(f'{{"nodes": {_encoded(names)},\n "routing": {_encoded(topology.routing.value)},\n "paths": [')
    separator = "\n  "
    found = (row for _, row in _found(network, sources, dests))
    for _, of_source in groupby(found, key=attrgetter("source")):
        objects = [dict(zip(COLUMNS, (names[row.source], names[row.dest], *row[2:]), strict=True)) for row in of_source]
        write(separator + _encoded(objects)[1:-1])
        separator = ",\n  "
    write("\n ]}\n")


def _encoded(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _print_table(network: Network, sources: Sequence[int], dests: Sequence[int]) -> None:
    """Prints all pairs, or a sample; only the paths shown are computed."""
    every = _pairs(sources, dests)
    origins, ends = (sources, dests) if every <= _MOST_TABLE_ROWS else _sampled(sources, dests)
    print_table(
        ("from", "to", "latency", "jitter", "loss", "bandwidth", "hops", "route"),
        [_cells(network, paths, row) for paths, row in _found(network, origins, ends)],
        least=("hops", "jitter", "loss", "route"),
        wrapped=("route",),
    )
    if (shown := _pairs(origins, ends)) < every:
        click.echo(
            f"a sample: {shown} of {every} pairs, from {_of(origins, sources)} to {_of(ends, dests)}; "
            f"all of them: --format csv or --format json; fewer: --from NODE, --to NODE",
            err=True,
        )


def _pairs(sources: Sequence[int], dests: Sequence[int]) -> int:
    """Number of pairs of different nodes."""
    return len(sources) * len(dests) - len(set(sources) & set(dests))


def _sampled(sources: Sequence[int], dests: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Evenly spaced nodes of both sides; more of one side where the other has few."""
    most = _SAMPLE * _SAMPLE
    origins = _spread(sources, max(_SAMPLE, most // len(dests)))
    return origins, _spread(dests, max(_SAMPLE, most // len(origins)))


def _spread(nodes: Sequence[int], most: int) -> Sequence[int]:
    """At most `most` nodes, evenly spaced."""
    return nodes if len(nodes) <= most else [nodes[at * len(nodes) // most] for at in range(most)]


def _of(some: Sequence[int], every: Sequence[int]) -> str:
    nodes = f"{len(every)} node{'s' if len(every) > 1 else ''}"
    return f"{len(some)} of {nodes}" if len(some) < len(every) else nodes


def _cells(network: Network, paths: Paths, row: PathRow) -> list[str | int | None]:
    ends = [network.names[row.source], network.names[row.dest]]
    if not row.reachable:
        return [*ends, *[None] * 5, "no path"]
    route = " → ".join(network.names[vertex] for vertex in paths.vertices_on(row.source, row.dest))
    rate = format_rate(UNLIMITED if row.bandwidth_bps is None else row.bandwidth_bps)
    return [*ends, *_latencies(row), format_loss(row.loss), rate, row.hops, route]


def _latencies(row: PathRow) -> list[str]:
    return [format_latency(round(value, 3)) for value in (row.latency_ms, row.jitter_ms) if value is not None]
