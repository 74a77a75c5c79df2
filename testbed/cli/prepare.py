"""`testbed prepare`: makes the folder of a run whose containers another tool starts, such as Compose.

Runs in a container of its own, before all others, as the user that will own the results.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.experiment_options import experiment_options, resolve
from testbed.cli.findings import print_findings
from testbed.cores import usable_cores
from testbed.errors import UsageProblem
from testbed.rundir import create_run

if TYPE_CHECKING:
    from testbed.experiment.origin import Setting
    from testbed.plan.model import RunPlan


@click.command("prepare", hidden=True)
@experiment_options
@click.option("--run-id", help="The run's name.")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path, dir_okay=False), help="Of this plan.json.")
@click.option(
    "--results",
    default="/testbed/results",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where run directories are made.",
)
def command(
    run_id: str | None, plan_file: Path | None, results: Path, file: str | None, settings: Sequence[Setting]
) -> None:
    """Write the plan of a run, and make the folders that its containers mount.

    \b
    Example:
      testbed prepare --run-id lan4 topologies/lan4.xml --data digits
    """
    from testbed.plan.files import read_plan
    from testbed.runtimes.planning import Talk, planned, ready_again
    from testbed.runtimes.registry import CONTAINERS, Chosen

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # SIGTERM was blocked while this was process 1 of a container.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    if (plan_file is None) == (file is None):
        raise UsageProblem("either a plan or a topology", "give one of the two")
    if not os.access(results, os.W_OK | os.X_OK):
        raise UsageProblem(
            f"user {os.getuid()} cannot write to the folder of results",
            "make it before Docker does, which would make it root's; or set TESTBED_UID and TESTBED_GID to its owner",
        )
    if plan_file is not None:
        plan = read_plan(plan_file)
        if run_id is not None:
            plan = plan.model_copy(update={"run_id": run_id})
        ready_again(plan, CONTAINERS, plan_file, _say)
    else:
        resolved = resolve(file, settings, quiet=False)
        if run_id is None:
            raise UsageProblem("the run needs a name", "give it with --run-id")
        talk = Talk(_say, _say, print_findings)
        _, plan = planned(resolved, Chosen(CONTAINERS), {}, run_id, beside=results, talk=talk)
    _make(plan, results)
    _say(f"run {plan.run_id}: {len(plan.nodes)} nodes")


def _make(plan: RunPlan, results: Path) -> None:
    """Makes the whole folder or nothing: an incomplete one would block the next attempt."""
    from testbed.plan.files import write_plan
    from testbed.runtimes.containers.layout import lay_out

    run = create_run(results, plan.run_id)
    try:
        write_plan(run, plan)
        lay_out(plan, run, usable_cores())
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise


def _say(text: str) -> None:
    click.echo(text, err=True)
