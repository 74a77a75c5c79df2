"""`testbed deploy`: plan a run, and run it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from testbed.cli.experiment_options import experiment_options, resolve
from testbed.cli.findings import print_findings
from testbed.cli.output import Format, format_option
from testbed.cli.run_options import run_options
from testbed.cli.run_signals import RunSignals
from testbed.errors import UsageProblem
from testbed.linux import is_linux

if TYPE_CHECKING:
    from testbed.experiment.origin import Setting
    from testbed.plan.model import RunPlan
    from testbed.runtimes.runtime import Given, Runtime


@click.command("deploy")
@experiment_options
@run_options
@click.option("--force", is_flag=True, help="Start even if this machine seems too small.")
@click.option(
    "--results",
    default="results",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where run directories are made.",
)
@click.option("--run-id", help="The run's name.  [default: from topology, algorithm and time of day]")
@click.option("--overwrite", is_flag=True, help="Replace the run of that name if it is over.")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path, dir_okay=False), help="Run this plan.json again.")
@click.option("--dry-run", is_flag=True, help="Print the plan and start nothing.")
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@format_option
def command(
    runtime: str | None,
    given: Given,
    results: Path,
    run_id: str | None,
    plan_file: Path | None,
    *,
    overwrite: bool,
    force: bool,
    dry_run: bool,
    quiet: bool,
    output_format: Format,
    file: str | None,
    settings: Sequence[Setting],
) -> None:
    """Run an experiment: a YAML file, or a topology and options.

    \b
    Examples:
      testbed deploy topologies/wan16.xml
      testbed deploy topologies/wan16.xml --data digits --rounds 20 --dry-run
      testbed deploy experiment.yaml --set training.lr=0.1 --seed 2
      testbed deploy --plan results/wan16-dpsgd-1/plan.json

    All files of the run are in RESULTS/RUN-ID; `testbed collect RESULTS` summarises them. Ctrl-C ends a run in good
    order, a second Ctrl-C at once.
    """
    from testbed.cli.run_ending import print_summary, tell_ending, tell_of_run
    from testbed.runtimes.plan_process import planned_apart
    from testbed.runtimes.planning import Talk, Wanted, plan_again, plan_new, read_again, ready_again
    from testbed.runtimes.registry import choose
    from testbed.runtimes.run_place import check_results, run_place
    from testbed.runtimes.runtime import TIME_SCALE, Checking

    say = _keep_quiet if quiet else _say
    began_s = monotonic()
    if overwrite and run_id is None:
        raise UsageProblem("--overwrite needs to know which run", "give its name with --run-id")
    if not dry_run:
        check_results(results)
    wanted = Wanted(results, run_id, runtime, given, overwrite=overwrite, dry=dry_run)
    talk = Talk(say, _say, _keep_quiet if quiet else print_findings)
    if plan_file is None:
        first = choose(runtime, given)
        resolved = resolve(file, settings, quiet=quiet)
        topology, leading = resolved.topology, first.runtime
        new_plan = partial(plan_new, resolved, first, wanted)
    elif file is not None or settings:
        raise UsageProblem("a plan is complete: it takes no topology and no settings", "leave out one of the two")
    else:
        leading, read = read_again(plan_file, wanted)
        topology = read.load_topology()
        new_plan = partial(plan_again, leading, read, plan_file, wanted)

    def planned(talk: Talk) -> tuple[Runtime, RunPlan]:
        chosen, plan = new_plan(talk)
        if plan_file is not None and not dry_run:
            ready_again(plan, chosen, plan_file, talk.say)
        is_fitted = plan_file is None and given.get(TIME_SCALE.name) is None
        checking = Checking(results / plan.run_id, given, talk.say, force=force, is_fitted=is_fitted, dry=dry_run)
        return chosen, chosen.check(plan, checking)

    if leading.facts.plans_apart and is_linux() and not dry_run:
        chosen, plan = planned_apart(planned, talk, topology)
    else:
        chosen, plan = planned(talk)
    if dry_run:
        from testbed.cli.plan_view import print_plan

        print_plan(plan, output_format)
        return
    with (
        RunSignals(quiet=quiet, say=say) as console,
        run_place(results, plan, overwrite=overwrite, say=say) as directory,
    ):
        say(f"run {plan.run_id} in {directory.path}")
        if chosen.facts.is_virtual:
            began_s = monotonic()
        outcome = chosen.run(plan, directory, given, console)
    if outcome is None:
        say(f"next: testbed status {directory.path}; testbed destroy {directory.path} ends it")
        tell_of_run(directory, output_format)
        return
    real_s = monotonic() - began_s
    print_summary(outcome, plan, directory.path, real_s, output_format)
    tell_ending(outcome, plan, directory.path, real_s, say, chosen.hints(outcome))


def _keep_quiet(*_words: object) -> None:
    """In place of what `--quiet` leaves out."""


def _say(text: str) -> None:
    click.echo(text, err=True)
