"""`testbed exec`: a command in the network of a node."""

from __future__ import annotations

import os
from pathlib import Path

import click

from testbed.cli.run_target import find_run, live_record, plan_of, ranks_of, results_option
from testbed.errors import PreflightRefused, UsageProblem
from testbed.runtimes.local.engine import NONE
from testbed.runtimes.local.enter import command_there
from testbed.runtimes.local.leftovers import is_alive


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("run")
@click.argument("node")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@results_option
def command(run: str, node: str, words: tuple[str, ...], results: Path) -> None:
    """Run a command where a node is in the network: ping and iperf3 see what it sees.

    \b
    Examples:
      testbed exec wan16-dpsgd-1 ireland.0 -- ping -c 3 198.18.0.2
      testbed exec wan16-dpsgd-1 ireland.0 -- ss -ti

    Its exit code is the command's.
    """
    directory = find_run(run, results)
    record = live_record(directory)
    plan = plan_of(directory)
    ranks = ranks_of(plan, [node])
    if len(ranks) != 1:
        raise UsageProblem(f"{node} is {len(ranks)} nodes", f"take one, such as {plan.nodes[ranks[0]].name}")
    process = next((each for each in record.processes if each.name == f"node {ranks[0]}" and is_alive(each)), None)
    if process is None:
        raise UsageProblem(f"{plan.nodes[ranks[0]].name} does not live now")
    if words[0] == "--":
        words = words[1:]
    if not words:
        raise UsageProblem("which command?", "testbed exec RUN NODE -- COMMAND")
    if _network_of(process.pid) == _network_of(os.getpid()):
        has_none = f"{plan.nodes[ranks[0]].name} has no network of its own"
        if plan.engine == NONE:
            raise PreflightRefused(f"{has_none}: its engine is `none`")
        raise UsageProblem(f"{has_none}: it is only just starting")
    there = command_there(process.pid, words)
    os.execv(there[0], there)  # noqa: S606 - exactly what the user has typed, without a shell


def _network_of(pid: int) -> int:
    """Its namespace's number; raises PreflightRefused for another user's process."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError as problem:
        raise PreflightRefused(
            f"cannot look into the node's process: {problem.strerror}", "only who started the run can"
        ) from None
