"""`testbed destroy`: end runs and remove what they left behind, but for their results."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.run_target import all_runs, find_run, is_of_containers, is_virtual, results_option
from testbed.cli.status import is_over
from testbed.errors import CouldNotStart, PreflightRefused, UsageProblem
from testbed.rundir import RunDirectory
from testbed.runtimes.real.leftovers import Removed, destroy
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
    start, containers by their labels, and its folder of sockets. Containers of a run whose directory is gone are found
    by the path that it had.
    """
    if every == (run is not None):
        raise UsageProblem("either a run or --all", "`testbed status` lists runs")
    lasting, unasked = [], []
    if every:
        for name in remove_leftovers():
            click.echo(f"{name}: removed what a verification had left", err=True)
    for each in _all(results) if run is None else _meant(run, results):
        try:
            removed = _destroy(each)
        except (PreflightRefused, CouldNotStart) as problem:  # its Engine's
            if not every:
                raise
            unasked.append((f"{each.path.name}: {problem.message}", problem.hint))
            continue
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
    if unasked:
        words, hint = unasked[0]
        raise PreflightRefused(words, f"{len(unasked)} runs may have containers there" if unasked[1:] else hint)


def _all(results: Path) -> list[RunDirectory]:
    """Of a folder; those, too, of which only containers are left."""
    return [*all_runs(results), *(each for each in _strays() if each.path.parent == results.resolve())]


def _meant(run: str, results: Path) -> list[RunDirectory]:
    try:
        return [find_run(run, results)]
    except UsageProblem:
        folders = ((results / run).resolve(), Path(run).resolve())
        lost = [each for each in _strays() if each.path in folders]
        if not lost:
            raise
        return lost


def _strays() -> list[RunDirectory]:
    from testbed.runtimes.docker.leftovers import strays

    return strays()


def _destroy(run: RunDirectory) -> Removed:
    if is_of_containers(run) or not run.plan.exists():
        from testbed.runtimes.docker import leftovers

        if run.plan.exists() or leftovers.is_known(run):
            return leftovers.destroy(run)
    return destroy(run)


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
