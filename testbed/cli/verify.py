"""`testbed verify`: measures whether the network has the properties that the topology asks for."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.output import Cell, Format, format_option, print_csv, print_json, print_table, printable
from testbed.cli.run_target import all_runs, live_run, results_option
from testbed.cli.run_target import plan_of as plan_of_run
from testbed.cli.topology_file import open_topology
from testbed.collect.plan_head import read_plan_head
from testbed.collect.problems import counted
from testbed.errors import ExitCode, PreflightRefused, UsageProblem, closest
from testbed.rundir import RunDirectory
from testbed.runtimes.registry import owner_of
from testbed.runtimes.runtime import FABRIC, UNSEEN, UNSHAPED

if TYPE_CHECKING:
    from testbed.topologies.model import Topology
    from testbed.verify.judge import Row
    from testbed.verify.measure import Measured
    from testbed.verify.pairs import Pair
    from testbed.verify.plan import Plan

COLUMNS = ("pair", "what", "asked", "measured", "unit", "verdict", "detail")
LONG_S = 180.0
"""A longer measurement is announced beforehand."""
_DIGITS = 4


@click.command(name="verify")
@click.argument("target", metavar="TOPOLOGY|RUN", type=str)
@click.option("--pairs", "count", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the draws.")
@click.option(
    "--congestion", type=click.Choice(["cubic", "reno"]), default="cubic", show_default=True, help="TCP's, as planned."
)
@click.option(FABRIC.flag, "asked", type=click.Choice(FABRIC.choices), help=FABRIC.help)
@click.option("--thorough", is_flag=True, help="Send as many probes as small losses need, however long that takes.")
@results_option
@format_option
def command(
    target: str,
    count: int,
    seed: int,
    congestion: str,
    asked: str | None,
    results: Path,
    output_format: Format,
    *,
    thorough: bool,
) -> None:
    """Measure the network of TOPOLOGY, brought up without learners, or that of a live RUN.

    The pairs cover the extremes: shortest, longest, slowest, most loss and jitter, a shared bottleneck. Ends with
    exit code 7 when something is out of its bounds, which docs/verify.md lists, or when this machine was too slow.
    A RUN is a folder, or a name under results/. Beside its learners only some things can be measured; of one that is
    over, the network is brought up anew, with the seed and the congestion control of its plan.

    \b
    Example:
      testbed verify topologies/wan16.xml
      testbed verify topologies/lan4.xml --pairs 3 --format json
      testbed verify wan16-dpsgd-1
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends in good order, too
    run = _run(target, results)
    if run is not None:
        _check_engine(run)
    if run is not None and owner_of(run).goes_on(run):
        if FABRIC.asks(asked):
            raise UsageProblem(f"the run {run.path.name} has a fabric already", f"leave out {FABRIC.flag}")
        _look(run, count, seed, output_format)
        return
    if run is None:
        topology = _topology(target, results)
    else:
        plan = plan_of_run(run)
        topology, congestion, seed = plan.load_topology(), plan.experiment.network.congestion, plan.seed
    _measure(topology, count, seed, congestion, asked, output_format, thorough=thorough)


def _run(target: str, results: Path) -> RunDirectory | None:
    """The run at a path, or else of a name; None if there is none."""
    for path in (Path(target), results / target):
        if path.is_dir() and RunDirectory(path).plan.exists():
            return RunDirectory(path)
    return None


def _topology(target: str, results: Path) -> Topology:
    """The topology of a name that is not a run; the error suggests a similar run name."""
    try:
        return open_topology(target).topology
    except UsageProblem as problem:
        near = None if Path(target).exists() else closest(target, [run.path.name for run in all_runs(results)])
        if near is None:
            raise
        raise UsageProblem(
            f"{printable(target)} is neither a topology nor a run", f"did you mean `{near}`?"
        ) from problem


def _check_engine(run: RunDirectory) -> None:
    """Raises UsageProblem for a run without an emulated network."""
    plan, _ = read_plan_head(run.plan)
    if plan.engine == UNSHAPED:
        raise PreflightRefused(
            f"the run {run.path.name} has no emulated network: its engine is `{UNSHAPED}`",
            f"testbed verify {run.topology} measures the network that its topology asks for",
        )


def _look(run: RunDirectory, count: int, seed: int, output_format: Format) -> None:
    from testbed.verify.live import find_live, measure_live

    attached = live_run(run)
    attached.may_enter_networks()
    pids = attached.pids()
    if UNSEEN in pids.values():
        raise PreflightRefused(
            "the processes of this run cannot be seen from here, on the machine of its Docker Engine: to measure, one "
            "has to enter their networks",
            "testbed verify TOPOLOGY brings up the same network without containers",
        )
    live = find_live(attached, pids)
    pairs, found = measure_live(live, count, seed, lambda line: click.echo(line, err=True))
    _tell(live.topology.name, pairs, found, output_format)


def _measure(
    topology: Topology,
    count: int,
    seed: int,
    congestion: str,
    asked: str | None,
    output_format: Format,
    *,
    thorough: bool,
) -> None:
    # numpy and the other modules for measuring are slow to import: only this command should wait for them.
    from testbed.engines.fabric.planes import choose
    from testbed.engines.namespace import TcpSettings
    from testbed.engines.network_check import what_is_denied
    from testbed.verify.measure import measure
    from testbed.verify.prepare import config_for, plan_of
    from testbed.verify.sizing import THOROUGH, Effort
    from testbed.verify.tools import installed
    from testbed.verify.work_folder import make_work_folder, remove_leftovers

    plan = plan_of(topology, count, seed, THOROUGH if thorough else Effort(), installed())
    settings = TcpSettings(congestion=congestion)
    denied = what_is_denied(settings)
    if denied is not None:
        raise denied
    data_plane = choose(asked)
    click.echo(f"warning: {data_plane.remark}" if data_plane.remark else f"data plane: {data_plane.name}", err=True)
    _announce(plan)
    remove_leftovers()
    with make_work_folder() as work:
        config = config_for(topology, seed, work.folder, data_plane.name)
        found = measure(plan, config, work, settings, lambda line: click.echo(line, err=True))
    _tell(topology.name, plan.pairs, found, output_format)


def _announce(plan: Plan) -> None:
    """Announces a long measurement, and losses that are only roughly checked."""
    seconds = plan.seconds
    if seconds > LONG_S:
        click.echo(f"this will take about {seconds / 60:.0f} minutes", err=True)
    few = plan.with_few_drops
    if few:
        click.echo(
            f"the losses of {counted(few, 'pair')} are so small that they are only roughly checked: --thorough would "
            f"take {plan.thorough_s / 60:.0f} minutes",
            err=True,
        )


def _tell(topology: str, pairs: Sequence[Pair], found: Measured, output_format: Format) -> None:
    """Prints the verdict, and exits with its code."""
    _print(topology, pairs, found, output_format)
    for line in found.left_out:
        click.echo(f"not measured: {line}", err=True)
    for line in found.overloaded:
        click.echo(f"this machine was too slow: {line}", err=True)
    wrong = sum(row.verdict == "wrong" for row in found.rows)
    made = f"{counted(len(found.rows), 'measurement')} of {counted(len(pairs), 'pair')}"
    click.echo(f"{made}, {wrong} out of bounds", err=True)
    if found.overloaded or not found.is_as_asked:
        click.get_current_context().exit(ExitCode.NOT_AS_ASKED)
    if not found.is_complete:
        click.get_current_context().exit(ExitCode.INCOMPLETE)


def _print(topology: str, pairs: Sequence[Pair], found: Measured, output_format: Format) -> None:
    cells = [_cells(row) for row in found.rows]
    if output_format is Format.CSV:
        print_csv(COLUMNS, cells)
    elif output_format is Format.TABLE:
        print_table(COLUMNS, cells, least=("detail", "unit"), wrapped=("detail",))
    else:
        print_json(
            {
                "topology": topology,
                "as_asked": found.is_as_asked,
                "overloaded": list(found.overloaded),
                "left_out": list(found.left_out),
                "pairs": [{"pair": pair.name, "why": pair.why} for pair in pairs],
                "measurements": [dict(zip(COLUMNS, row, strict=True)) for row in cells],
            }
        )


def _cells(row: Row) -> tuple[Cell, ...]:
    asked, measured = (None if value is None else round(value, _DIGITS) for value in (row.asked, row.measured))
    return row.pair, row.what, asked, measured, row.unit, row.verdict.value, row.detail
