"""`testbed generate regions`: a wide-area network from measured times between regions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from testbed.cli.generate_options import LATENCY, LOSS, NODES, RATE, GenerateOptions, shared_options
from testbed.errors import UsageProblem
from testbed.topologies.generate.matrix import one_way, read_latencies, read_losses, read_rates
from testbed.topologies.generate.recipes import BETWEEN_REGIONS, CLOUD_LOSS, CLOUD_RTT
from testbed.topologies.generate.regions import regions

_FILE = click.Path(path_type=Path)


@click.command("regions")
@click.option("--matrix", type=_FILE, help="CSV of times between regions.  [default: ten cloud regions]")
@click.option("--times", type=click.Choice(["rtt", "one-way"]), default="rtt", show_default=True, help="What they are.")
@click.option("--rates", type=_FILE, help="CSV of rates between regions; bare numbers are Mbps.")
@click.option("--losses", type=_FILE, help="CSV of losses between regions.  [default: of the ten cloud regions]")
@click.option("--nodes-per-region", type=NODES, help="Instead of --nodes.")
@click.option("--rate", type=RATE, default="1Gbps", show_default=True, help="Between regions, unless --rates says it.")
@click.option("--jitter", type=LATENCY, default="0ms", show_default=True, help="Between regions.")
@click.option("--loss", type=LOSS, help="Between regions, for all the same.")
@shared_options(nodes_required=False, nodes_help="Nodes in all, spread evenly over the regions.")
def regions_command(
    asked: GenerateOptions,
    matrix: Path | None,
    times: str,
    rates: Path | None,
    losses: Path | None,
    nodes_per_region: int | None,
    rate: float,
    jitter: float,
    loss: float | None,
) -> None:
    """Regions of the world, every pair linked as a latency matrix says.

    A matrix is CSV: the first row and the first column name the regions, a bare number is milliseconds, an empty cell
    is no link. One triangle is enough.

    \b
    Example:
      testbed generate regions --nodes 256 --kollaps -o wan256.xml
      testbed generate regions --matrix rtt.csv --nodes-per-region 4 --loss 0.1% -o mine.yaml
    """
    if (asked.nodes is None) == (nodes_per_region is None):
        raise UsageProblem("how many nodes?", "give one of --nodes and --nodes-per-region")
    if matrix is None and times == "one-way":
        raise UsageProblem("the bundled times are round trips", "leave out --times, or give your own --matrix")
    if loss is not None and losses is not None:
        raise UsageProblem("--loss and --losses do not go together", "give one of them")
    bundled_losses = CLOUD_LOSS if matrix is None and loss is None else None
    losses_file = losses or bundled_losses
    network = regions(
        one_way(read_latencies(matrix or CLOUD_RTT), round_trip=times == "rtt"),
        replace(BETWEEN_REGIONS, rate_bps=rate, jitter_ms=jitter, loss=loss or 0.0),
        read_rates(rates) if rates else None,
        read_losses(losses_file) if losses_file else None,
    )
    nodes = asked.nodes if asked.nodes is not None else (nodes_per_region or 0) * len(network.names)
    asked.deliver(network, nodes, f"regions{nodes}")
