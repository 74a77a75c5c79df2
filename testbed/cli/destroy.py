"""`testbed destroy`: end runs and remove what they left behind, but for their results."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.run_target import all_runs, find_run, is_virtual, results_option
from testbed.cli.status import is_over
from testbed.errors import PreflightRefused, UsageProblem
from testbed.rundir import RunDirectory
from testbed.runtimes.local.leftovers import destroy
from testbed.verify.places import remove_leftovers


@click.command("destroy")
@click.argument("run", required=False)
@click.option("--all", "every", is_flag=True, help="All runs in the folder of results.")
@results_option
def command(run: str | None, results: Path, *, every: bool) -> None:
    """End a run, and remove all that it left behind but its results.

    \b
    Examples:
      testbed destroy wan16-dpsgd-1
      testbed destroy --all

    May be run any number of times. Only what the run has recorded as its own is touched: processes by id and time of
    start, and its folder of sockets.
    """
    if every == (run is not None):
        raise UsageProblem("either a run or --all")
    lasting = []
    if every:
        for name in remove_leftovers():
            click.echo(f"{name}: removed what a verification had left", err=True)
    for each in all_runs(results) if run is None else [find_run(run, results)]:
        removed = destroy(each)
        if removed.ended:
            click.echo(f"{each.path.name}: ended {', '.join(_named(removed.ended))}", err=True)
        elif removed.files:
            click.echo(f"{each.path.name}: removed what it had left", err=True)
        elif removed.is_copy:
            click.echo(f"{each.path.name}: its record of processes is another run's, or none: left alone", err=True)
        elif not every and not removed.lasting:
            click.echo(f"{each.path.name}: {_nothing_left(each)}", err=True)
        if removed.lasting:
            lasting.append(f"{', '.join(_named(removed.lasting))} of {each.path.name}")
    if lasting:
        raise PreflightRefused(f"cannot be ended: {'; '.join(lasting)}", "are they another user's?")


def _nothing_left(run: RunDirectory) -> str:
    if is_virtual(run) and not is_over(run):
        return (
            "a run in virtual time, which has no processes of its own; "
            "if it goes on, it ends with the command that runs it: Ctrl-C there, or kill that process"
        )
    return "nothing is left of it but its results"


def _named(names: tuple[str, ...]) -> list[str]:
    nodes = sum(name.startswith("node ") for name in names)
    others = [name for name in names if not name.startswith("node ")]
    return [*others, *([f"{nodes} node{'s' if nodes != 1 else ''}"] if nodes else [])]
