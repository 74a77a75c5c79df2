"""`testbed verify`: is the network the one that was asked for?"""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.output import Cell, Format, format_option, print_csv, print_json, print_table
from testbed.cli.topology_file import open_topology
from testbed.errors import ExitCode

if TYPE_CHECKING:
    from testbed.topologies.model import Topology
    from testbed.verify.judge import Row
    from testbed.verify.measure import Measured, Plan

COLUMNS = ("pair", "what", "asked", "measured", "unit", "verdict", "detail")
LONG_S = 180.0
"""Beyond this, it is said beforehand."""
_DIGITS = 4


@click.command(name="verify")
@click.argument("file", metavar="TOPOLOGY", type=str)
@click.option("--pairs", "count", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the draws.")
@click.option(
    "--congestion", type=click.Choice(["cubic", "reno"]), default="cubic", show_default=True, help="TCP's, as planned."
)
@click.option("--thorough", is_flag=True, help="As many probes as small losses need, however long that takes.")
@format_option
def command(file: str, count: int, seed: int, congestion: str, thorough: bool, output_format: Format) -> None:
    """Bring up the network of TOPOLOGY (a file, or the folder of a run) without learners, and measure it.

    The pairs cover the extremes: shortest, longest, slowest, most loss and jitter, a shared bottleneck. Ends with
    exit code 7 when something is out of its bounds, which docs/verify.md lists. Of a run, seed and congestion control
    are those of its plan.

    \b
    Example:
      testbed verify topologies/wan16.xml
      testbed verify topologies/lan4.xml --pairs 3 --format json
    """
    # numpy and what else measuring needs take their time: only this command should wait for them.
    from testbed.engines.abilities import what_is_denied
    from testbed.engines.namespace import TcpSettings
    from testbed.verify.measure import measure
    from testbed.verify.needs import THOROUGH, Effort
    from testbed.verify.prepare import config_for, plan_of

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends in good order, too
    topology, congestion, seed = _asked(file, congestion, seed)
    plan = plan_of(topology, count, seed, THOROUGH if thorough else Effort())
    settings = TcpSettings(congestion=congestion)
    denied = what_is_denied(settings)
    if denied is not None:
        raise denied
    _announce(plan)
    with tempfile.TemporaryDirectory(prefix="testbed-") as folder:
        config = config_for(topology, seed, Path(folder))
        found = measure(plan, config, Path(folder), settings, lambda line: click.echo(line, err=True))
    _print(topology, plan, found, output_format)
    for line in found.overloaded:
        click.echo(f"this machine was too slow: {line}", err=True)
    wrong = sum(row.verdict == "wrong" for row in found.rows)
    click.echo(f"{len(found.rows)} measurements of {len(plan.pairs)} pairs, {wrong} out of bounds", err=True)
    if not found.is_as_asked:
        click.get_current_context().exit(ExitCode.NOT_AS_ASKED)


def _asked(file: str, congestion: str, seed: int) -> tuple[Topology, str, int]:
    """What to measure, TCP's congestion control, and the seed."""
    path = Path(file)
    if not path.is_dir():
        return open_topology(file).topology, congestion, seed
    from testbed.plan.files import read_plan
    from testbed.rundir import RunDirectory

    plan = read_plan(RunDirectory(path).plan)
    return plan.load_topology(), plan.experiment.network.congestion, plan.seed


def _announce(plan: Plan) -> None:
    """Only what somebody must know before waiting."""
    seconds = plan.seconds
    if seconds > LONG_S:
        click.echo(f"this will take about {seconds / 60:.0f} minutes", err=True)
    few = plan.with_few_drops
    if few:
        click.echo(
            f"the losses of {few} pairs are so small that they are only roughly checked: --thorough would take "
            f"{plan.thorough_s / 60:.0f} minutes",
            err=True,
        )


def _print(topology: Topology, plan: Plan, found: Measured, output_format: Format) -> None:
    cells = [_cells(row) for row in found.rows]
    if output_format is Format.CSV:
        print_csv(COLUMNS, cells)
    elif output_format is Format.TABLE:
        print_table(COLUMNS, cells)
    else:
        print_json(
            {
                "topology": topology.name,
                "as_asked": found.is_as_asked,
                "overloaded": list(found.overloaded),
                "pairs": [{"pair": pair.name, "why": pair.why} for pair in plan.pairs],
                "measurements": [dict(zip(COLUMNS, row, strict=True)) for row in cells],
            }
        )


def _cells(row: Row) -> tuple[Cell, ...]:
    asked, measured = (None if value is None else round(value, _DIGITS) for value in (row.asked, row.measured))
    return row.pair, row.what, asked, measured, row.unit, row.verdict.value, row.detail
