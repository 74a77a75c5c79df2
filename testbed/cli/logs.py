"""`testbed logs`: prints the output of nodes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import click

from testbed.cli.output import printable
from testbed.cli.run_target import find_run, plan_of, ranks_of, results_option
from testbed.errors import TestbedError
from testbed.run_files import open_plain
from testbed.rundir import RunDirectory
from testbed.runtimes.registry import owner_of

_LOOK_S = 0.25
_ASK_S = 3.0
"""Interval of asking a Docker Engine whether a run goes on whose processes are not visible here."""
_AT_ONCE = 1 << 20
_LONGEST_LINE = 1 << 20
"""Longer lines are printed in parts."""


@click.command("logs")
@click.argument("run")
@click.argument("nodes", nargs=-1)
@click.option("--follow", "-f", is_flag=True, help="Follow new output until the run is over.")
@results_option
def command(run: str, nodes: tuple[str, ...], results: Path, *, follow: bool) -> None:
    """Print the output of nodes, with tracebacks; of several nodes each line begins with the node's name.

    NODE is a node, a service (all its nodes) or a pattern.

    \b
    Examples:
      testbed logs wan16-dpsgd-1
      testbed logs wan16-dpsgd-1 ireland.0 tokyo -f
    """
    directory = find_run(run, results)
    plan = plan_of(directory)
    ranks = ranks_of(plan, nodes) if nodes else tuple(range(len(plan.nodes)))
    several = len(ranks) > 1
    logs = [
        _Log(f"{name}  " if several else "", directory.node(name).log, directory.path)
        for name in (plan.nodes[rank].name for rank in ranks)
    ]
    life = _Liveness(directory)
    if follow and not owner_of(directory).is_seen(directory):  # asking a runtime may take time
        _print_new(logs, whole=False)
    while True:
        is_live = follow and life.goes_on()  # checked before reading the logs, so that nothing is missed at the end
        _print_new(logs, whole=not is_live)
        if not is_live:
            break
        time.sleep(_LOOK_S)
    if not any(log.has_said_anything for log in logs):
        why = " (in virtual time, what nodes print is said by the command that runs them)"
        click.echo(f"nothing was printed{why if owner_of(directory).facts.is_virtual else ''}", err=True)


class _Liveness:
    """Whether a run goes on, asked at most once per interval if the answer is slow."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._runtime = owner_of(run)
        self._ask_s = 0.0
        self._is_unknown = False

    def goes_on(self) -> bool:
        """Whether the run goes on. If its Docker Engine does not answer, it counts as live, with a warning."""
        if time.monotonic() < self._ask_s:
            return True
        try:
            is_live = self._runtime.goes_on(self._run)
            self._is_unknown = False
        except TestbedError as problem:
            if not self._is_unknown:
                click.echo(f"warning: whether the run goes on is not known now: {problem.message}", err=True)
            is_live = self._is_unknown = True
        if not self._runtime.is_seen(self._run):
            self._ask_s = time.monotonic() + _ASK_S
        return is_live


class _Log:
    """The log of one node, and the position up to which it was printed."""

    def __init__(self, before: str, path: Path, run: Path) -> None:
        self._before = before
        self._path = path
        self._run = run
        self._at = 0
        self._torn = b""

    @property
    def has_said_anything(self) -> bool:
        return self._at > 0

    def print_new(self, *, whole: bool) -> None:
        """Prints new complete lines; with `whole` also a last one without an end."""
        while text := self._more():
            *lines, self._torn = (self._torn + text).split(b"\n")
            for line in lines:
                self._print(line)
            if len(self._torn) >= _LONGEST_LINE:
                self._print(self._torn)
                self._torn = b""
        if whole and self._torn:
            self._print(self._torn)
            self._torn = b""

    def _more(self) -> bytes:
        try:
            with open_plain(self._path, self._run) as file:
                file.seek(self._at)
                text = file.read(_AT_ONCE)
        except OSError:
            return b""
        self._at += len(text)
        return text

    def _print(self, line: bytes) -> None:
        click.echo(f"{self._before}{printable(line.decode(errors='replace'))}")


def _print_new(logs: Iterable[_Log], *, whole: bool) -> None:
    for log in logs:
        log.print_new(whole=whole)
