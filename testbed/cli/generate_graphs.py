"""`testbed generate graph` and `topohub`: published networks."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.findings import print_findings
from testbed.cli.generate_options import GenerateOptions, core_options, shared_options
from testbed.topologies.model import LinkProperties

# Imported inside the functions because networkx, which they need, is slow to import.

_NODES_HELP = "Nodes in all, spread evenly over the sites.  [default: one at each]"
_route_factor = click.option(
    "--route-factor",
    type=float,
    default=1.0,
    show_default=True,
    help="How much longer cables are than the great circle, where only coordinates are known.",
)


@click.command("graph")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--latency-key", metavar="KEY", help="Edge attribute that is a latency in milliseconds.")
@click.option("--distance-key", metavar="KEY", help="Edge attribute that is a distance in kilometres.")
@_route_factor
@core_options
@shared_options(nodes_required=False, nodes_help=_NODES_HELP)
def graph_command(
    asked: GenerateOptions,
    core: LinkProperties,
    file: Path,
    latency_key: str | None,
    distance_key: str | None,
    route_factor: float,
) -> None:
    """A graph file: GraphML, GML, JSON (node-link) or an edge list.

    Distances, and great circles where only coordinates are known, become latencies at 200 km/ms; --latency and --rate
    are for links of which the file says nothing.

    \b
    Example:
      testbed generate graph Abilene.graphml --nodes 32 --routing latency -o abilene.yaml
    """
    from testbed.topologies.graph_import import Keys, interpret, read_graph, renames

    imported = interpret(read_graph(file), core, Keys(latency_key, distance_key), route_factor)
    print_findings(str(file), imported.findings)
    topology = asked.deliver(imported.network, asked.nodes or len(imported.network.names), file.stem[:80])
    print_findings(str(file), renames(imported.network, topology))


@click.command("topohub")
@click.argument("key")
@_route_factor
@core_options
@shared_options(nodes_required=False, nodes_help=_NODES_HELP)
def topohub_command(asked: GenerateOptions, core: LinkProperties, key: str, route_factor: float) -> None:
    """A reference topology of the `topohub` package, which `scripts/venv topohub` installs in the checkout.

    \b
    Example:
      testbed generate topohub sndlib/germany50 --nodes 50 --routing latency -o germany50.yaml
    """
    from testbed.topologies.graph_import import interpret, read_topohub, renames

    imported = interpret(read_topohub(key), core, route_factor=route_factor)
    print_findings(key, imported.findings)
    topology = asked.deliver(imported.network, asked.nodes or len(imported.network.names), key.rpartition("/")[2][:80])
    print_findings(key, renames(imported.network, topology))
