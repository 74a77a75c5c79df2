"""`testbed logs`: what nodes have printed."""

from __future__ import annotations

import time
from pathlib import Path

import click

from testbed.cli.output import printable
from testbed.cli.run_target import find_run, live_record, plan_of, ranks_of, results_option
from testbed.errors import UsageProblem
from testbed.rundir import RunDirectory

_LOOK_S = 0.25
_AT_ONCE = 1 << 20


@click.command("logs")
@click.argument("run")
@click.argument("nodes", nargs=-1)
@click.option("--follow", "-f", is_flag=True, help="Go on with what is printed from now on, until the run is over.")
@results_option
def command(run: str, nodes: tuple[str, ...], results: Path, *, follow: bool) -> None:
    """Print what nodes have printed, each line with its node's name.

    \b
    Examples:
      testbed logs wan16-dpsgd-1
      testbed logs wan16-dpsgd-1 paris.0 tokyo -f
    """
    directory = find_run(run, results)
    plan = plan_of(directory)
    ranks = ranks_of(plan, nodes) if nodes else tuple(range(len(plan.nodes)))
    logs = [_Log(name, directory.node(name).log) for name in (plan.nodes[rank].name for rank in ranks)]
    while True:
        goes_on = follow and _goes_on(directory)
        for log in logs:
            log.print_new(whole=not goes_on)
        if not goes_on:
            return
        time.sleep(_LOOK_S)


def _goes_on(run: RunDirectory) -> bool:
    try:
        live_record(run)
    except UsageProblem:
        return False
    return True


class _Log:
    """One node's, and how far it was printed."""

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self._path = path
        self._at = 0
        self._torn = b""

    def print_new(self, *, whole: bool) -> None:
        """Whole lines; with `whole` the last one even if it has no end."""
        while text := self._more():
            *lines, self._torn = (self._torn + text).split(b"\n")
            for line in lines:
                self._print(line)
        if whole and self._torn:
            self._print(self._torn)
            self._torn = b""

    def _more(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                text = file.read(_AT_ONCE)
        except OSError:
            return b""
        self._at += len(text)
        return text

    def _print(self, line: bytes) -> None:
        click.echo(f"{self._name}  {printable(line.decode(errors='replace'))}")
