"""`testbed deploy`: plan a run, and run it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.experiment_options import Resolved, experiment_options, resolve
from testbed.cli.findings import print_findings
from testbed.cli.output import Format, format_option
from testbed.errors import ExitCode, Severity, UsageProblem, did_you_mean
from testbed.rundir import RunDirectory, create_run

if TYPE_CHECKING:
    from testbed.experiment.origin import Setting
    from testbed.plan.model import RunPlan
    from testbed.runtimes.outcome import Outcome
    from testbed.runtimes.sim.run import SimRun

RUNTIMES = ("sim",)
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@click.command("deploy")
@experiment_options
@click.option("--runtime", help="What starts the nodes: sim (virtual time, in this process).  [default: sim]")
@click.option(
    "--results",
    default="results",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where run directories are made.",
)
@click.option("--run-id", help="The run's name.  [default: from topology, algorithm and time of day]")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path, dir_okay=False), help="Run this plan.json again.")
@click.option("--dry-run", is_flag=True, help="Print the plan, start nothing.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@format_option
@click.option("--workers", type=click.IntRange(0, 256), help="Processes that train.  [default: one a core]")
def command(
    runtime: str | None,
    results: Path,
    run_id: str | None,
    plan_file: Path | None,
    *,
    dry_run: bool,
    quiet: bool,
    workers: int | None,
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

    Everything about the run goes to RESULTS/RUN-ID; `testbed collect RESULTS` says what happened.
    """
    from testbed.cli.plan_view import print_plan
    from testbed.plan.files import read_plan, write_plan

    chosen = _choose_runtime(runtime)
    if plan_file is not None:
        if file is not None or settings:
            raise UsageProblem("a plan is complete: it takes no topology and no settings", "leave out one of the two")
        plan = read_plan(plan_file)
        plan = plan.model_copy(update={"run_id": _run_id(run_id, plan.topology_name, plan.experiment.algorithm.name)})
    else:
        plan = _make_plan(resolve(file, settings), chosen, run_id, quiet=quiet, fetch=not dry_run)
    if dry_run:
        print_plan(plan, output_format)
        return
    directory = create_run(results, plan.run_id)
    write_plan(directory, plan)
    click.echo(f"run {plan.run_id} in {directory.path}", err=True)
    outcome = _run(plan, directory, quiet=quiet, workers=workers)
    _tell(outcome, directory)


def _choose_runtime(asked: str | None) -> str:
    """The runtime asked for, by option or environment; says which when nobody asked."""
    pinned = asked or os.environ.get("TESTBED_RUNTIME")
    if pinned is None:
        click.echo("runtime: sim (virtual time; say --runtime to choose another)", err=True)
        return "sim"
    if pinned not in RUNTIMES:
        raise UsageProblem(f"there is no runtime `{pinned}`", did_you_mean(pinned, RUNTIMES))
    return pinned


def _run_id(given: str | None, topology: str, algorithm: str) -> str:
    if given is None:
        made = f"{topology}-{algorithm.rpartition(':')[2]}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        return re.sub(r"[^A-Za-z0-9._-]", "-", made).lstrip("-.")[:100]
    if not _RUN_ID.fullmatch(given):
        raise UsageProblem(f"`{given}` cannot be a run's name", "use letters, digits and . _ -, at most 100")
    return given


def _make_plan(resolved: Resolved, runtime: str, run_id: str | None, *, quiet: bool, fetch: bool) -> RunPlan:
    from testbed.plan.make import make_plan

    experiment = resolved.experiment
    if experiment.compute.mode == "measured":
        raise UsageProblem("virtual time cannot be measured", "take `compute: {mode: paced}` with this runtime")
    for name, findings in resolved.findings:
        print_findings(name, [each for each in findings if each.severity is Severity.WARNING])
    plan = partial(
        make_plan,
        experiment,
        resolved.topology,
        run_id=_run_id(run_id, resolved.topology.name, experiment.algorithm.name),
        runtime=runtime,
        source=resolved.origin,
        inputs=resolved.inputs,
    )
    learners = len(plan().learners)  # and all that does not fit together is known before anything is fetched

    from testbed.runtimes.sim.describe import describe, versions

    described = describe(experiment, learners, fetch=fetch, tell=_keep_quiet if quiet else _say)
    return plan(
        parameters=described.parameters,
        samples=described.samples,
        nominal_ms_per_step=described.nominal_ms_per_step,
        versions=versions(),
    )


def _keep_quiet(_text: str) -> None:
    pass


def _say(text: str) -> None:
    click.echo(text, err=True)


def _run(plan: RunPlan, directory: RunDirectory, *, quiet: bool, workers: int | None) -> Outcome:
    from testbed.cli.progress_view import progress_view
    from testbed.runtimes.sim.prepare import prepared
    from testbed.runtimes.sim.run import SimRun

    with prepared(plan, workers=workers) as shared, progress_view(quiet=quiet) as tell:
        whole = SimRun(plan, directory, shared, tell=tell)
        with _ends_on_signals(whole):
            return whole.run()


@contextmanager
def _ends_on_signals(whole: SimRun) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the run in good order; the second one ends it at once."""

    def first(number: int, _frame: object) -> None:
        signal.signal(number, signal.default_int_handler)
        click.echo("ending the run; once more to end it at once", err=True)
        whole.interrupt()

    before = {number: signal.signal(number, first) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(outcome: Outcome, directory: RunDirectory) -> None:
    context = click.get_current_context()
    for each in outcome.failures:
        place = f"{each.failure.file}:{each.failure.line}: " if each.failure.file else ""
        click.echo(f"Error: node {each.node} failed: {place}{each.failure.message}", err=True)
    if outcome.reason == "interrupted":
        click.echo(f"interrupted; what there is: testbed collect {directory.path}", err=True)
        context.exit(ExitCode.INTERRUPTED)
    if outcome.failures:
        click.echo(f"what there is: testbed collect {directory.path}", err=True)
        context.exit(ExitCode.NODE_FAILED)
    why = {"finished": "", "time": "its time is over; ", "accuracy": "the accuracy is reached; "}[outcome.reason]
    click.echo(
        f"{why}{outcome.finished} nodes finished after {outcome.t:.1f} emulated seconds; "
        f"next: testbed collect {directory.path}",
        err=True,
    )
