"""`testbed fault`: something happens to nodes of a run that goes on."""

from __future__ import annotations

import time
from pathlib import Path

import click

from testbed.cli.run_target import door_of, find_run, plan_of, ranks_of, results_option
from testbed.control.commands import Done, Inject, ask
from testbed.errors import UsageProblem
from testbed.units import parse_duration_s

ACTIONS = ("crash", "kill", "pause", "resume", "disconnect", "reconnect", "leave", "join")
_UNDONE_BY = {"crash": "join", "kill": "join", "leave": "join", "pause": "resume", "disconnect": "reconnect"}


@click.command("fault")
@click.argument("action", type=click.Choice(ACTIONS))
@click.argument("run")
@click.argument("targets", nargs=-1, required=True)
@click.option("--for", "duration", metavar="TIME", help="Undo it after so long, such as 10s; the command waits.")
@results_option
def command(action: str, run: str, targets: tuple[str, ...], duration: str | None, results: Path) -> None:
    """Let something happen to nodes, or to all nodes of a service.

    \b
    Examples:
      testbed fault crash wan16-dpsgd-1 paris.0 --for 10s
      testbed fault pause wan16-dpsgd-1 tokyo

    crash: gone at once, and nothing of it leaves any more. kill: only its process is gone. leave: it says goodbye.
    join: it comes back. pause, resume: it is stopped where it is. disconnect, reconnect: its packets are lost.
    """
    seconds = None if duration is None else parse_duration_s(duration)
    if seconds is not None and action not in _UNDONE_BY:
        raise UsageProblem(f"nothing undoes {action}", f"--for goes with {', '.join(sorted(_UNDONE_BY))}")
    directory = find_run(run, results)
    door = door_of(directory)
    ranks = ranks_of(plan_of(directory), targets)
    _inject(door, action, ranks)
    if seconds is not None:
        time.sleep(seconds)
        _inject(door, _UNDONE_BY[action], ranks)


def _inject(door: Path, action: str, ranks: tuple[int, ...]) -> None:
    done = ask(door, Inject(action, ranks))
    if isinstance(done, Done):
        click.echo(f"{action}: {len(ranks)} node{'s' if len(ranks) != 1 else ''} at {done.t:.2f}s", err=True)
