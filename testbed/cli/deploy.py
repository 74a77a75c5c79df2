"""`testbed deploy`: plan a run, and run it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from testbed.cli.experiment_options import Resolved, experiment_options, resolve
from testbed.cli.findings import print_findings
from testbed.cli.output import Format, format_option
from testbed.cli.run_choice import ENGINES, LOCAL, SIM, check_engine, check_runtime, choose_runtime
from testbed.cli.run_ending import print_summary, tell_ending
from testbed.cli.run_fitting import AUTO, TimeScaleType, check_time_scale, fitted
from testbed.cli.run_signals import RunSignals
from testbed.code import CodeProblem
from testbed.errors import Severity, UsageProblem
from testbed.rundir import RunDirectory, create_run

if TYPE_CHECKING:
    from testbed.control.outcome import Outcome
    from testbed.experiment.origin import Setting
    from testbed.plan.model import RunPlan

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@click.command("deploy")
@experiment_options
@click.option("--runtime", help="What starts the nodes: local (real processes), sim (virtual time).  [default: local]")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="What carries their packets with `local`: fabric (the network of the topology), none (loopback, unshaped).",
)
@click.option(
    "--time-scale",
    type=TimeScaleType(),
    help="How many times longer everything takes in real time, with `local`; "
    f"{AUTO}: as little as lets this machine carry the traffic.  [default: {AUTO} with fabric, else 1]",
)
@click.option("--detach", "-d", is_flag=True, help="Return as soon as the nodes have begun; the run goes on.")
@click.option("--force", is_flag=True, help="Start even if this machine seems too small.")
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
@click.option("--quiet", "-q", is_flag=True, help="Say nothing but what goes wrong.")
@format_option
@click.option("--workers", type=click.IntRange(0, 256), help="Processes that train in `sim`.  [default: one a core]")
def command(
    runtime: str | None,
    results: Path,
    run_id: str | None,
    plan_file: Path | None,
    engine: str | None,
    time_scale: float | None,
    *,
    detach: bool,
    force: bool,
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

    Everything about the run goes to RESULTS/RUN-ID; `testbed collect RESULTS` says what happened. Ctrl-C ends a run
    in good order, a second one at once.
    """
    from testbed.plan.files import changed_inputs, read_plan, write_plan

    say = _keep_quiet if quiet else _say
    began = monotonic()
    if plan_file is not None:
        if file is not None or settings or engine is not None or time_scale is not None:
            raise UsageProblem("a plan is complete: it takes no topology and no settings", "leave out one of the two")
        plan = read_plan(plan_file)
        if runtime not in (None, plan.runtime):
            raise UsageProblem(f"a plan is complete: this one is for {plan.runtime}", "leave out --runtime")
        check_runtime(plan.runtime)
        name = _run_id(results, run_id, plan.topology_name, plan.experiment.algorithm.name)
        for changed in changed_inputs(plan):
            say(f"warning: {changed} is not what it was when the plan was made: the run will be another one")
        plan = plan.model_copy(update={"run_id": name})
    else:
        chosen = choose_runtime(runtime, engine, say)
        check_engine(chosen, engine)
        check_time_scale(chosen, time_scale)
        resolved = resolve(file, settings, quiet=quiet)
        plan = _make_plan(resolved, chosen, engine, time_scale, results, run_id, say=say, dry_run=dry_run)
    if detach and plan.runtime == SIM:
        raise UsageProblem("virtual time does not go on by itself", f"--detach is for --runtime {LOCAL}")
    if dry_run:
        from testbed.cli.plan_view import print_plan

        print_plan(plan, output_format)
        return
    with RunSignals(quiet=quiet) as signals:
        if plan_file is not None:
            _fetch_data(plan, say)
        if plan.runtime == LOCAL:
            from testbed.cli.run_preflight import check_machine

            check_machine(plan, say, force=force, is_fitted=plan_file is None and time_scale is None)
        directory = create_run(results, plan.run_id)
        write_plan(directory, plan)
        say(f"run {plan.run_id} in {directory.path}")
        if detach:
            from testbed.cli.run_detached import detached

            detached(directory, say, output_format)
            return
        began = monotonic() if plan.runtime == SIM else began
        run = _run_sim if plan.runtime == SIM else _run_local
        outcome = run(plan, directory, signals, quiet=quiet, workers=workers)
    real_s = monotonic() - began
    print_summary(outcome, directory.path, real_s, output_format)
    tell_ending(outcome, directory.path, real_s, say)


def _run_id(results: Path, given: str | None, topology: str, algorithm: str) -> str:
    """A name that no run has yet, as far as can be known before its directory is made."""
    if given is None:
        made = f"{topology}-{algorithm.rpartition(':')[2]}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        name = re.sub(r"[^A-Za-z0-9._-]", "-", made).lstrip("-.")[:95]
        names = (name if number == 1 else f"{name}-{number}" for number in count(1))
        return next(each for each in names if not (results / each).exists())
    if not _RUN_ID.fullmatch(given):
        raise UsageProblem(f"`{given}` cannot be a run's name", "use letters, digits and . _ -, at most 100")
    if (results / given).exists():
        raise UsageProblem(f"{results / given} exists already", "give another --run-id, or remove it")
    return given


def _make_plan(
    resolved: Resolved,
    runtime: str,
    engine: str | None,
    time_scale: float | None,
    results: Path,
    run_id: str | None,
    *,
    say: Callable[[str], None],
    dry_run: bool,
) -> RunPlan:
    from testbed.plan.cautions import cautions
    from testbed.plan.estimate import estimate
    from testbed.plan.late_events import events_too_late
    from testbed.plan.make import make_plan

    experiment = resolved.experiment
    if experiment.compute.mode == "measured" and runtime == SIM:
        raise UsageProblem("virtual time cannot be measured", "take `compute: {mode: paced}` with this runtime")
    plan = partial(
        make_plan,
        experiment,
        resolved.topology,
        run_id=_run_id(results, run_id, resolved.topology.name, experiment.algorithm.name),
        runtime=runtime,
        engine=engine,
        source=resolved.origin,
        inputs=resolved.inputs,
    )
    first = plan()
    learners = len(first.learners)  # and all that does not fit together is known before anything is fetched
    if say is not _keep_quiet:
        for name, findings in resolved.findings:
            print_findings(name, [each for each in findings if each.severity is Severity.WARNING])
        print_findings(experiment.topology, cautions(experiment, resolved.topology))
    say(f"preparing {experiment.data.name} and {experiment.model.name} for {learners} learners")

    from testbed.runtimes.sim.describe import describe, versions

    described = describe(experiment, learners, fetch=not dry_run, tell=say)
    if dry_run and described.problem is not None:
        say(f"warning: the run would fail at once: {described.problem}")
    step_ms = described.nominal_ms_per_step
    plan = partial(plan, parameters=described.parameters, samples=described.samples, versions=versions())
    if runtime == LOCAL:
        made = fitted(plan, first, described.parameters, step_ms, time_scale, say)
    else:
        made = plan(nominal_ms_per_step=step_ms)
    if say is not _keep_quiet:
        late = events_too_late(made, resolved.topology, lambda: estimate(made))
        print_findings(experiment.topology, late)
    return made


def _keep_quiet(_text: str) -> None:
    pass


def _say(text: str) -> None:
    click.echo(text, err=True)


def _fetch_data(plan: RunPlan, say: Callable[[str], None]) -> None:
    """Before there is a run directory: without its data nothing can be started."""
    say(f"preparing {plan.experiment.data.name} and {plan.experiment.model.name} for {len(plan.learners)} learners")

    from testbed.runtimes.sim.describe import fetch_data

    fetch_data(plan.experiment, say)


def _run_local(
    plan: RunPlan,
    directory: RunDirectory,
    signals: RunSignals,
    *,
    quiet: bool,
    workers: int | None,  # noqa: ARG001 - real nodes have a process each
) -> Outcome:
    from testbed.cli.progress_view import progress_view
    from testbed.runtimes.local.run import LocalRun

    say = _keep_quiet if quiet else _say
    with progress_view(quiet=quiet) as tell:
        whole = LocalRun(plan, directory, tell=tell, begun=lambda seconds: say(f"all nodes began after {seconds:.1f}s"))
        signals.end_with(whole.interrupt)
        return whole.run()


def _run_sim(
    plan: RunPlan, directory: RunDirectory, signals: RunSignals, *, quiet: bool, workers: int | None
) -> Outcome:
    from testbed.cli.progress_view import progress_view
    from testbed.node.data.problems import Impossible
    from testbed.node.models.problems import ModelProblem
    from testbed.records import Failure
    from testbed.runtimes.sim.prepare import prepared
    from testbed.runtimes.sim.run import SimRun
    from testbed.runtimes.sim.stillborn import stillborn

    with ExitStack() as stack:
        try:
            shared = stack.enter_context(prepared(plan, workers=workers))
        except CodeProblem as problem:
            return stillborn(plan, directory, Failure(problem.message, problem.file, problem.line))
        except (ModelProblem, Impossible) as problem:
            return stillborn(plan, directory, Failure(problem.message))
        tell = stack.enter_context(progress_view(quiet=quiet))
        whole = SimRun(plan, directory, shared, tell=tell)
        signals.end_with(whole.interrupt)
        return whole.run()
