"""`testbed destroy`: ends runs and removes everything that they left, except their results."""

from __future__ import annotations

import os
from pathlib import Path

import click

from testbed.cli.run_target import all_runs, find_run, results_option
from testbed.errors import CouldNotStart, PreflightRefused, UsageProblem
from testbed.rundir import RunDirectory
from testbed.runtimes.registry import destroy, strays
from testbed.verify.work_folder import remove_leftovers

_NOTHING = "nothing is left of it but its results"


@click.command("destroy")
@click.argument("run", required=False)
@click.option("--all", "every", is_flag=True, help="All your own runs in the folder of results.")
@click.option("--force", is_flag=True, help="Also a run whose directory belongs to another user.")
@results_option
def command(run: str | None, results: Path, *, every: bool, force: bool) -> None:
    """End a run, and remove everything that it left behind except its results.

    \b
    Examples:
      testbed destroy wan16-dpsgd-1
      testbed destroy --all

    Can be repeated. Only things of this run are touched: processes that its record names and that carry its mark, and
    their children; containers with its labels; its folder of sockets. Containers of a run whose directory is gone are
    found by the path of that directory.
    """
    if every == (run is not None):
        raise UsageProblem("either a run or --all", "`testbed status` lists runs")
    if every and force:
        raise UsageProblem("--force is for one run", "name the run that is another user's")
    lasting, unasked = [], []
    if every:
        for name in remove_leftovers():
            click.echo(f"{name}: removed what a verification had left", err=True)
    for each in _all(results) if run is None else _meant(run, results):
        if not force and (owner := _other_owner(each)) is not None:
            words = f"{each.path} belongs to {owner}, who may have written anything into its record"
            if not every:
                raise PreflightRefused(words, "--force ends what is that run's all the same")
            click.echo(f"{each.path.name}: left alone: {words}", err=True)
            continue
        try:
            removed = destroy(each)
        except (PreflightRefused, CouldNotStart) as problem:  # its Engine's
            if not every:
                raise
            unasked.append((f"{each.path.name}: {problem.message}", problem.hint))
            continue
        if removed.strangers:
            pids = ", ".join(map(str, removed.strangers))
            click.echo(f"{each.path.name}: left alone, in its record but not of this run: process {pids}", err=True)
        if removed.ended:
            click.echo(f"{each.path.name}: ended {', '.join(_named(removed.ended))}", err=True)
        elif removed.files:
            click.echo(f"{each.path.name}: removed what it had left", err=True)
        elif removed.is_copy:
            click.echo(f"{each.path.name}: its record of processes is another run's, or none: left alone", err=True)
        elif not every and not removed.lasting:
            click.echo(f"{each.path.name}: {removed.remark or _NOTHING}", err=True)
        if removed.lasting:
            lasting.append(f"{', '.join(_named(removed.lasting))} of {each.path.name}")
    if lasting:
        raise PreflightRefused(f"cannot be ended: {'; '.join(lasting)}", "are they another user's?")
    if unasked:
        words, hint = unasked[0]
        raise PreflightRefused(words, f"{len(unasked)} runs may have containers there" if unasked[1:] else hint)


def _other_owner(run: RunDirectory) -> str | None:
    """The owner of the run directory; None if it is the calling user, also through `sudo`."""
    if not hasattr(os, "geteuid"):  # Windows
        return None
    import pwd

    try:
        owner = run.path.stat().st_uid
    except OSError:  # only containers are left, found by their labels
        return None
    if owner == os.geteuid() or (os.geteuid() == 0 and str(owner) == os.environ.get("SUDO_UID")):
        return None
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"user {owner}"


def _all(results: Path) -> list[RunDirectory]:
    """All runs of a folder, including those of which only containers are left."""
    return [*all_runs(results), *(each for each in strays() if each.path.parent == results.resolve())]


def _meant(run: str, results: Path) -> list[RunDirectory]:
    try:
        return [find_run(run, results)]
    except UsageProblem:
        folders = ((results / run).resolve(), Path(run).resolve())
        lost = [each for each in strays() if each.path in folders]
        if not lost:
            raise
        return lost


def _named(names: tuple[str, ...]) -> list[str]:
    nodes = sum(name.startswith("node ") for name in names)
    others = [name for name in names if not name.startswith("node ")]
    return [*others, *([f"{nodes} node{'s' if nodes != 1 else ''}"] if nodes else [])]
