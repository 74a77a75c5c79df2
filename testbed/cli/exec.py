"""`testbed exec`: runs a command in the network of a node."""

from __future__ import annotations

from pathlib import Path

import click

from testbed.cli.run_target import find_run, live_run, node_of, plan_of, results_option
from testbed.errors import UsageProblem


@click.command("exec", context_settings={"ignore_unknown_options": True})
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

    Options stand before the `--`. The exit code is that of COMMAND, or as in a shell 127 if there is no such program,
    and 126 if it cannot be executed. COMMAND is a program of this machine. If nodes are containers, only root can enter
    their networks this way; other users run programs of the image. So does root if the containers' processes are not
    visible here.
    """
    if words[0].startswith("-"):
        raise UsageProblem(f"`exec` has no option {words[0]}", "testbed exec RUN NODE [OPTIONS] -- COMMAND")
    directory = find_run(run, results)
    live = live_run(directory)
    context.exit(live.exec(node_of(plan_of(directory), node), words))
