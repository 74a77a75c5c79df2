"""`testbed destroy`: end runs and remove what they left behind, but for their results."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.run_target import all_runs, find_run, results_option
from testbed.errors import PreflightRefused, UsageProblem
from testbed.runtimes.local.leftovers import destroy


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
    for each in all_runs(results) if run is None else [find_run(run, results)]:
        removed = destroy(each)
        if removed.ended:
            click.echo(f"{each.path.name}: ended {', '.join(_named(removed.ended))}", err=True)
        elif removed.files:
            click.echo(f"{each.path.name}: removed what it had left", err=True)
        elif not every and not removed.lasting:
            click.echo(f"{each.path.name}: nothing is left of it but its results", err=True)
        lasting += [f"{name} of {each.path.name}" for name in removed.lasting]
    if lasting:
        raise PreflightRefused(f"cannot be ended: {', '.join(lasting)}", "are they another user's?")


def _named(names: tuple[str, ...]) -> list[str]:
    nodes = sum(name.startswith("node ") for name in names)
    others = [name for name in names if not name.startswith("node ")]
    return [*others, *([f"{nodes} node{'s' if nodes != 1 else ''}"] if nodes else [])]
