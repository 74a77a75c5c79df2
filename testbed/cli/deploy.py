"""`testbed deploy`: plan a run, and run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from testbed.cli.experiment_options import Resolved, experiment_options, resolve
from testbed.cli.output import Format, format_option
from testbed.cli.run_choice import (
    DOCKER,
    ENGINES,
    LOCAL,
    SIM,
    Chosen,
    check_engine,
    check_image,
    check_runtime,
    check_sockets,
    choose_runtime,
)
from testbed.cli.run_signals import RunSignals
from testbed.cli.time_scale_option import AUTO, TimeScaleType, check_time_scale
from testbed.code import CodeProblem
from testbed.errors import Finding, InvalidInput, RunBroken, UsageProblem
from testbed.image.facts import DEFAULT_TAG
from testbed.linux import is_linux
from testbed.rundir import RunDirectory
from testbed.runtimes.docker.socket_places import Sockets

if TYPE_CHECKING:
    from testbed.control.outcome import Outcome
    from testbed.experiment.origin import Setting
    from testbed.plan.model import RunPlan
    from testbed.topologies.model import Topology


@click.command("deploy")
@experiment_options
@click.option(
    "--runtime",
    help="What starts the nodes: docker (containers), local (real processes), sim (virtual time).  "
    "[default: docker where an Engine has the image, else local, else sim]",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="What carries their packets with `local`: fabric (the network of the topology), none (loopback, unshaped).",
)
@click.option(
    "--time-scale",
    type=TimeScaleType(),
    help="How many times longer everything takes in real time, with `local` and `docker`; "
    f"{AUTO}: as little as lets this machine carry the traffic.  [default: {AUTO} with fabric, else 1]",
)
@click.option(
    "--image", metavar="NAME", help=f"What containers run; stands for --runtime {DOCKER}.  [default: {DEFAULT_TAG}]"
)
@click.option(
    "--sockets",
    type=click.Choice([each.value for each in Sockets]),
    help=f"Where those of containers lie, with `{DOCKER}`: in the run's folder, on volumes of the Engine, or auto: in "
    "the folder, unless they do not reach over from there (Docker Desktop).  [default: auto]",
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
@click.option("--overwrite", is_flag=True, help="Replace the run of that name, if there is one and it is over.")
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
    image: str | None,
    sockets: str | None,
    *,
    overwrite: bool,
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
    from testbed.cli.run_ending import print_summary, record_summary, tell_ending
    from testbed.cli.run_place import check_results, run_place
    from testbed.cli.run_planning import free_run_id, planned, ready_again
    from testbed.plan.files import changed_inputs, read_plan

    say = _keep_quiet if quiet else _say
    began = monotonic()
    if overwrite and run_id is None:
        raise UsageProblem("--overwrite needs to know which run", "give its name with --run-id")
    if not dry_run:
        check_results(results)
    if plan_file is not None:
        if file is not None or settings or engine is not None or time_scale is not None:
            raise UsageProblem("a plan is complete: it takes no topology and no settings", "leave out one of the two")
        plan = _for_runtime(read_plan(plan_file), runtime)
        choice = Chosen(check_runtime(plan.runtime), "" if runtime else "the plan says so")
        _check_detach(plan.runtime, detach=detach)
        name = free_run_id(results, run_id, plan.topology_name, plan.experiment.algorithm.name, overwrite=overwrite)
        for changed in changed_inputs(plan):
            say(f"warning: {changed} is not what it was when the plan was made: the run will be another one")
        plan = plan.model_copy(update={"run_id": name, "runtime_choice": choice.for_plan()})
        check_image(plan.runtime, image)
        check_sockets(plan.runtime, sockets)
        if plan.runtime == DOCKER and (found := _foreign_programs(plan.load_topology(), image)):
            raise InvalidInput(str(plan_file), found)
        if plan.runtime == DOCKER and not dry_run:
            _have_image(image, say)
    else:
        asked = DOCKER if runtime is None and image is not None else runtime
        only_real = (("--time-scale", time_scale not in (None, 1.0)), ("--detach", detach))
        given = [option for option, is_given in only_real if is_given]
        chosen = choose_runtime(asked, engine, _why_no_containers, given)
        check_image(chosen.name, image)
        check_sockets(chosen.name, sockets)
        check_engine(chosen.name, engine)
        check_time_scale(chosen.name, time_scale)
        _check_detach(chosen.name, detach=detach)
        resolved = resolve(file, settings, quiet=quiet)
        if chosen.name == DOCKER and (why := _why_not_in_containers(chosen, resolved, image)) is not None:
            chosen = choose_runtime(None, engine, lambda: why, given)
        name = free_run_id(
            results, run_id, resolved.topology.name, resolved.experiment.algorithm.name, overwrite=overwrite
        )
        if chosen.name == DOCKER and not dry_run:
            _have_image(image, say)  # before anything is measured
        plan = planned(
            resolved, chosen, engine, time_scale, name, beside=results, say=say, quiet=quiet, fetch=not dry_run
        )
    is_fitted = plan_file is None and time_scale is None

    def in_containers(plan: RunPlan) -> RunPlan:
        from testbed.cli.run_preflight import check_containers

        folder = results / plan.run_id
        return check_containers(plan, image or DEFAULT_TAG, folder, say, force=force, is_fitted=is_fitted)

    if dry_run:
        from testbed.cli.plan_view import print_plan

        if plan.runtime == DOCKER and not _would_build(image, say):
            plan = in_containers(plan)
        print_plan(plan, output_format)
        return
    with RunSignals(quiet=quiet) as signals, ExitStack() as held:
        if plan_file is not None:
            ready_again(plan, plan_file, say)
        if plan.runtime == LOCAL:
            from testbed.cli.run_preflight import check_machine

            check_machine(plan, results, say, force=force, is_fitted=is_fitted)
        elif plan.runtime == DOCKER:
            plan = in_containers(plan)
        directory = held.enter_context(run_place(results, plan, overwrite=overwrite, say=say))
        say(f"run {plan.run_id} in {directory.path}")
        if detach and plan.runtime == LOCAL:
            from testbed.cli.run_detached import detached

            detached(directory, say, output_format)
            return
        began = monotonic() if plan.runtime == SIM else began
        how = _How(quiet=quiet, workers=workers, detach=detach, sockets=Sockets(sockets or Sockets.AUTO))
        outcome = _RUNS[plan.runtime](plan, directory, signals, how)
    if outcome is None:
        from testbed.cli.run_detached import tell_of_run

        say(f"next: testbed status {directory.path}; testbed destroy {directory.path} removes its containers")
        tell_of_run(directory, output_format)
        return
    real_s = monotonic() - began
    if plan.runtime == SIM:
        outcome = record_summary(outcome, plan, directory, real_s)
    print_summary(outcome, plan, directory.path, real_s, output_format)
    tell_ending(outcome, plan, directory.path, real_s, say)


def _for_runtime(plan: RunPlan, runtime: str | None) -> RunPlan:
    """A plan of real processes can be run in virtual time, too; any other is for its own runtime."""
    from testbed.plan.make import in_virtual_time

    if runtime in (None, plan.runtime):
        return plan
    if runtime != SIM:
        raise UsageProblem(
            f"this plan is for {plan.runtime}: its step and time scale were chosen for that",
            f"leave out --runtime, or take --runtime {SIM}",
        )
    if plan.experiment.compute.mode == "measured":
        from testbed.cli.run_planning import MEASURED_IN_VIRTUAL_TIME

        raise UsageProblem(MEASURED_IN_VIRTUAL_TIME, "leave out --runtime")
    return in_virtual_time(plan)


def _check_detach(runtime: str, *, detach: bool) -> None:
    if detach and runtime == SIM:
        raise UsageProblem("virtual time does not go on by itself", f"--detach is for --runtime {LOCAL}")


def _keep_quiet(_text: str) -> None:
    pass


def _say(text: str) -> None:
    click.echo(text, err=True)


@dataclass(frozen=True)
class _How:
    """What is not in the plan. But for `quiet`, only some runtimes care for it; the others were not given it."""

    quiet: bool
    workers: int | None
    detach: bool
    sockets: Sockets


def _run_local(plan: RunPlan, directory: RunDirectory, signals: RunSignals, how: _How) -> Outcome:
    from testbed.cli.progress_view import progress_view
    from testbed.runtimes.processes.local_backend import LocalBackend
    from testbed.runtimes.processes.run import RealRun

    say = _keep_quiet if how.quiet else _say
    with progress_view(quiet=how.quiet) as view:
        whole = RealRun(
            plan,
            directory,
            LocalBackend(),
            tell=view.tell,
            begun=lambda seconds: say(f"all nodes began after {seconds:.1f}s"),
            say=say,
        )
        signals.end_with(whole.interrupt)
        return whole.run()


def _run_sim(plan: RunPlan, directory: RunDirectory, signals: RunSignals, how: _How) -> Outcome:
    from testbed.cli.progress_view import progress_view
    from testbed.journal import CannotWrite
    from testbed.node.data.problems import Impossible
    from testbed.node.models.problems import ModelProblem
    from testbed.records import Failure
    from testbed.runtimes.failed_start import failed_start
    from testbed.runtimes.sim.prepare import prepared
    from testbed.runtimes.sim.run import SimRun

    if how.workers and not is_linux() and not how.quiet:
        _say(f"--workers {how.workers}: only on Linux are there processes that train; this one does all")
    with ExitStack() as stack:
        try:
            shared = stack.enter_context(prepared(plan, workers=how.workers))
        except CodeProblem as problem:
            return failed_start(plan, directory, Failure(problem.message, problem.file, problem.line))
        except (ModelProblem, Impossible) as problem:
            return failed_start(plan, directory, Failure(problem.message))
        view = stack.enter_context(progress_view(quiet=how.quiet))
        whole = SimRun(plan, directory, shared, tell=view.tell)
        signals.end_with(whole.interrupt, is_bounded=True)
        try:
            return whole.run()
        except CannotWrite as problem:
            raise RunBroken(problem.message) from None


def _run_docker(plan: RunPlan, directory: RunDirectory, signals: RunSignals, how: _How) -> Outcome | None:
    from testbed.cli.run_docker import run_containers

    say = _keep_quiet if how.quiet else _say
    return run_containers(plan, directory, signals, quiet=how.quiet, say=say, sockets=how.sockets, leave=how.detach)


def _why_no_containers() -> str | None:
    from testbed.runtimes.docker.preflight import why_no_containers

    return why_no_containers(DEFAULT_TAG)


def _foreign_programs(topology: Topology, image: str | None) -> list[Finding]:
    """Of a topology that wants containers to run something that nothing would run."""
    from testbed.targets.containers import foreign_programs

    return list(foreign_programs(topology, image or DEFAULT_TAG))


def _why_not_in_containers(chosen: Chosen, resolved: Resolved, image: str | None) -> str | None:
    """Raises InvalidInput instead where containers were asked for, rather than taken by default."""
    found = _foreign_programs(resolved.topology, image)
    if found and chosen.how != "default":
        raise InvalidInput(resolved.experiment.topology, found)
    return f"containers would ignore an image or a command of {resolved.topology.name}" if found else None


def _would_build(image: str | None, say: Callable[[str], None]) -> bool:
    """Whether the run itself would make its image first, which a dry run does not."""
    from testbed.image.at_hand import request_at_hand
    from testbed.image.engine_client import connected
    from testbed.image.facts import id_of

    if image is not None:
        return False
    with connected() as engine:
        would = id_of(engine, DEFAULT_TAG) is None and request_at_hand(engine, DEFAULT_TAG) is not None
    if would:
        say(f"the run would make the image {DEFAULT_TAG} first, since all packages for it are here")
    return would


def _have_image(image: str | None, say: Callable[[str], None]) -> None:
    """One that somebody has named is there, or is a mistake; the usual one is made where that takes seconds."""
    from testbed.image.at_hand import have_image
    from testbed.image.facts import image_id

    if image is None:
        have_image(DEFAULT_TAG, say)
    else:
        image_id(image)


_RUNS = {SIM: _run_sim, LOCAL: _run_local, DOCKER: _run_docker}
