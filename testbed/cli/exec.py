"""`testbed exec`: runs a command in the network of a node."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.run_target import find_run, live_run, node_of, plan_of, results_option
from testbed.errors import UsageProblem


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("run")
@click.argument("node")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@results_option
@click.pass_context
def command(context: click.Context, run: str, node: str, words: tuple[str, ...], results: Path) -> None:
    """Run a command in the network of a node, such as ping or iperf3.

    \b
    Examples:
      testbed exec wan16-dpsgd-1 ireland.0 -- ping -c 3 198.18.0.2
      testbed exec wan16-dpsgd-1 ireland.0 -- ss -ti

    The exit code is that of COMMAND, which is a program of this machine. If nodes are containers, only root can enter
    their networks this way; other users run programs of the image. So does root if the containers' processes are not
    visible here.
    """
    directory = find_run(run, results)
    live = live_run(directory)
    target = node_of(plan_of(directory), node)
    if words[0] == "--":
        words = words[1:]
    if not words:
        raise UsageProblem("which command?", "testbed exec RUN NODE -- COMMAND")
    context.exit(live.exec(target, words))
