"""`testbed exec`: a command in the network of a node."""

from __future__ import annotations

import os
from pathlib import Path

import click

from testbed.cli.live_nodes import pids_of_nodes
from testbed.cli.run_target import find_run, is_of_containers, live_record, node_of, plan_of, results_option
from testbed.errors import PreflightRefused, UsageProblem
from testbed.runtimes.processes.enter import command_there, has_network
from testbed.runtimes.reach import UNSEEN
from testbed.runtimes.tracking.ownership import MARK
from testbed.runtimes.tracking.process_records import hosts_of_run


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("run")
@click.argument("node")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@results_option
@click.pass_context
def command(context: click.Context, run: str, node: str, words: tuple[str, ...], results: Path) -> None:
    """Run a command where a node is in the network: ping and iperf3 see what it sees.

    \b
    Examples:
      testbed exec wan16-dpsgd-1 ireland.0 -- ping -c 3 198.18.0.2
      testbed exec wan16-dpsgd-1 ireland.0 -- ss -ti

    Its exit code is the command's. It is a program of this machine; where nodes are containers, whose networks only
    root can enter, others run what is in their image. So does root where the containers' processes cannot be seen.
    """
    directory = find_run(run, results)
    record = live_record(directory)
    plan = plan_of(directory)
    target = node_of(plan, node)
    pid = pids_of_nodes(directory, record, target.rank).get(target.rank)
    if pid is None:
        raise UsageProblem(f"{target.name} does not live now")
    if words[0] == "--":
        words = words[1:]
    if not words:
        raise UsageProblem("which command?", "testbed exec RUN NODE -- COMMAND")
    if is_of_containers(directory):
        is_seen = pid != UNSEEN
        if is_seen and not has_network(pid):
            raise UsageProblem(f"{target.name} is not in the network now", "it has not begun yet, or is over")
        if os.geteuid() != 0 or not is_seen:
            from testbed.runtimes.docker.command_inside import run_inside

            context.exit(run_inside(directory, target.rank, words))
    elif _network_of(pid) == _network_of(os.getpid()):
        from testbed.runtimes.processes.engine import NONE

        has_none = f"{target.name} has no network of its own"
        if plan.engine == NONE:
            raise PreflightRefused(f"{has_none}: its engine is `none`")
        raise UsageProblem(f"{has_none}: it is only just starting")
    there = command_there(pid, hosts_of_run(directory), words)
    os.execve(there[0], there, os.environ | {MARK: record.mark})  # noqa: S606 - exactly what the user has typed, without a shell


def _network_of(pid: int) -> int:
    """Its namespace's number; raises PreflightRefused for another user's process."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError as problem:
        raise PreflightRefused(
            f"cannot look into the node's process: {problem.strerror}", "only who started the run can"
        ) from None
