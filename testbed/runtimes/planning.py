"""An experiment, a topology and a runtime → a plan that this machine can carry.

Takes the resolved input and options, gives a `RunPlan`; loads data and model, and may fetch data and measure speed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.code import OnlyHere, is_code
from testbed.errors import Finding, InvalidInput, Severity, UsageProblem
from testbed.experiment.origin import Origin
from testbed.runtimes.fitting import fitted
from testbed.runtimes.registry import Chosen, check_options, named, options
from testbed.runtimes.run_place import checked_run_name, made_run_name, way_to
from testbed.runtimes.runtime import ENGINE, FABRIC, TIME_SCALE, UNSHAPED, Given, Runtime
from testbed.topologies.source import Source

if TYPE_CHECKING:
    from testbed.experiment.language import Experiment
    from testbed.node.named_code import WrongCode
    from testbed.plan.model import RunPlan
    from testbed.topologies.model import Topology

_CANNOT_MEASURE = "virtual time cannot be measured"
_HINTS = {
    "algorithm": "write `class NAME(Algorithm)` with `async def run(self, node)`: docs/writing-an-algorithm.md",
    "sharing": "write `class NAME(Sharing)`: docs/writing-an-algorithm.md",
    "model": "write `class NAME(nn.Module)` whose first argument is the data set: docs/writing-a-model.md",
    "data": "write a function that takes `seed`: docs/data.md",
    "overlay": "write def overlay(count, degree, round, random): docs/experiment.md",
}
_NO_MODULE = f"install its package for the Python that runs testbed: {sys.executable} -m pip install …"


@dataclass(frozen=True)
class Resolved:
    """An experiment and its topology, both without errors."""

    experiment: Experiment
    topology: Topology
    origin: Origin
    inputs: Mapping[str, str]
    """SHA-256 of the files that were read, by name."""
    findings: tuple[tuple[str, tuple[Finding, ...]], ...]
    """Warnings and notes by file."""


@dataclass(frozen=True)
class Talk:
    """Output functions for messages while a plan is made."""

    say: Callable[[str], None]
    """For progress; silent in quiet mode."""
    warn: Callable[[str], None]
    """For warnings; never silent."""
    findings: Callable[[str, Iterable[Finding]], None]
    """For findings about a file; silent in quiet mode."""


@dataclass(frozen=True)
class Wanted:
    """The requested run."""

    results: Path
    run_id: str | None
    runtime: str | None
    given: Given
    overwrite: bool = False
    dry: bool = False
    """Fetch and build nothing."""


def plan_new(resolved: Resolved, chosen: Chosen, wanted: Wanted, talk: Talk) -> tuple[Runtime, RunPlan]:
    """The plan of a new run, and its runtime, which may differ from `chosen` if that does not fit."""
    chosen = _fitting(resolved, chosen, wanted.given)
    experiment = resolved.experiment
    run_id = _free_run_id(wanted, resolved.topology.name, experiment.algorithm.name)
    if not wanted.dry:
        chosen.runtime.make_ready(wanted.given, talk.say)
    chosen, plan = planned(
        resolved, chosen, wanted.given, run_id, beside=wanted.results, talk=talk, fetch=not wanted.dry
    )
    return chosen.runtime, plan


def read_again(file: Path, wanted: Wanted) -> tuple[Runtime, RunPlan]:
    """The plan in a file, and the runtime that another run of it will have."""
    from testbed.plan.files import read_plan

    if any(option.is_planned and wanted.given.get(option.name) is not None for option in options()):
        raise UsageProblem("a plan is complete: it takes no topology and no settings", "leave out one of the two")
    plan = read_plan(file)
    return named(wanted.runtime or plan.runtime), plan


def plan_again(runtime: Runtime, plan: RunPlan, file: Path, wanted: Wanted, talk: Talk) -> tuple[Runtime, RunPlan]:
    """The plan of a file for another run, and its runtime: the plan's own, or one in virtual time."""
    from testbed.plan.files import changed_inputs

    plan = _for_runtime(plan, runtime)
    check_options(runtime, wanted.given)
    run_id = _free_run_id(wanted, plan.topology_name, plan.experiment.algorithm.name)
    for changed in changed_inputs(plan):
        talk.say(f"warning: {changed} is not what it was when the plan was made: the run will be another one")
    if found := runtime.ignored(plan.load_topology(), wanted.given):
        raise InvalidInput(str(file), found)
    if not wanted.dry:
        runtime.make_ready(wanted.given, talk.say)
    chosen = Chosen(runtime, why="" if wanted.runtime else "the plan says so")
    plan = plan.model_copy(update={"run_id": run_id, "runtime_choice": chosen.for_plan()})
    return runtime, _with_data_plane(plan, runtime, wanted.given, talk.warn)


def ready_again(plan: RunPlan, runtime: Runtime, file: Path, say: Callable[[str], None]) -> None:
    """Ensures, before a run directory exists, that the plan's code can be loaded, and its data are fetched."""
    experiment = plan.experiment
    _refuse_wrong_code(experiment, runtime, Origin(Source(str(file), "")), say)
    say(f"preparing {experiment.data.name} and {experiment.model.name} for {len(plan.learners)} learners")

    from testbed.node.data.experiment_data import fetch_data

    fetch_data(experiment, tell=say)


def planned(
    resolved: Resolved, chosen: Chosen, given: Given, run_id: str, *, beside: Path, talk: Talk, fetch: bool = True
) -> tuple[Chosen, RunPlan]:
    """The settled choice of a runtime, and a complete plan, comparable with earlier runs in the folder `beside`.

    Contradictions are reported before anything is said, fetched or measured.
    """
    from testbed.plan.cautions import cautions, with_missing_default
    from testbed.plan.estimate import estimate
    from testbed.plan.late_events import events_too_late
    from testbed.plan.make import make_plan
    from testbed.plan.outbox import dropped_in_vain

    experiment, topology = resolved.experiment, resolved.topology
    is_measured = experiment.compute.mode == "measured"
    if is_measured and chosen.runtime.facts.is_virtual:
        raise UsageProblem(_CANNOT_MEASURE, "take `compute: {mode: paced}` with this runtime")
    plan = make_plan(experiment, topology, run_id=run_id, source=resolved.origin, inputs=resolved.inputs)
    if fetch:
        _refuse_wrong_code(experiment, chosen.runtime, resolved.origin, talk.say)
    chosen = chosen.settled(talk.say, talk.warn, ("compute.mode=measured",) if is_measured else ())
    runtime = chosen.runtime
    plan = _on(plan, runtime, given).model_copy(update={"runtime_choice": chosen.for_plan()})
    plan = _with_data_plane(plan, runtime, given, talk.warn)
    for name, findings in resolved.findings:
        talk.findings(name, [each for each in findings if each.severity is Severity.WARNING])
    talk.findings(experiment.topology, cautions(experiment, topology))
    talk.say(f"preparing {experiment.data.name} and {experiment.model.name} for {len(plan.learners)} learners")

    from testbed.node.named_code import WrongCode
    from testbed.runtimes.described import describe, versions

    described = describe(experiment, len(plan.learners), fetch=fetch, tell=talk.say)
    if described.problem is not None and not fetch:
        talk.say(f"warning: the run would fail at once: {described.problem}")
    elif described.problem is not None and not runtime.facts.has_own_files:
        _refuse(WrongCode(("model", "name"), described.problem), runtime, resolved.origin, talk.say)
    own_code_waits = None if described.declared is None or plan.server is not None else described.declared.waits
    experiment = with_missing_default(plan.experiment, topology, own_code_waits=own_code_waits)
    sizes = {
        "experiment": experiment,
        "parameters": described.parameters,
        "samples": described.samples,
        "declared": described.declared,
        "samples_estimated": described.samples_estimated,
        "versions": dict(sorted(versions().items())),
    }
    asked = given.get(TIME_SCALE.name)
    assert asked is None or isinstance(asked, float)  # noqa: S101 - as the option gives it
    if warning := dropped_in_vain(experiment):
        talk.warn(f"warning: {warning}")
    plan = fitted(plan.model_copy(update=sizes), described.nominal_ms_per_step, asked, beside, talk.say, talk.warn)
    talk.findings(experiment.topology, events_too_late(plan, topology, lambda: estimate(plan)))
    return chosen, plan


def _on(plan: RunPlan, runtime: Runtime, given: Given) -> RunPlan:
    """The plan with the runtime and its emulation engine."""
    engine = given.get(ENGINE.name) or runtime.facts.engines[0]
    return plan.model_copy(update={"runtime": runtime.name, "engine": engine, "runtime_facts": runtime.recorded()})


def _with_data_plane(plan: RunPlan, runtime: Runtime, given: Given, warn: Callable[[str], None]) -> RunPlan:
    """The plan with what carries its packets here: as an option, the plan or the environment asks for."""
    asked = given.get(FABRIC.name)
    if plan.engine == UNSHAPED:
        if FABRIC.asks(asked):
            raise UsageProblem(f"{FABRIC.flag} is for the fabric: {ENGINE.flag} {UNSHAPED} has none", "leave out one")
        return plan.model_copy(update={"data_plane": None})
    if asked is None and plan.data_plane is not None:
        asked = plan.data_plane.asked
    assert asked is None or isinstance(asked, str)  # noqa: S101 - as the option gives it
    return plan.model_copy(update={"data_plane": runtime.data_plane(given, asked, warn)})


def _for_runtime(plan: RunPlan, runtime: Runtime) -> RunPlan:
    """The plan for this runtime: its own, or one in virtual time. Raises UsageProblem for any other."""
    if runtime.name == plan.runtime:
        return plan
    if not runtime.facts.is_virtual:
        raise UsageProblem(
            f"this plan is for {plan.runtime}: its step and time scale were chosen for that",
            "leave out --runtime, or take one in virtual time: --runtime sim",
        )
    if plan.experiment.compute.mode == "measured":
        raise UsageProblem(_CANNOT_MEASURE, "leave out --runtime")
    return _on(plan, runtime, {}).model_copy(update={"time_scale": 1.0})


def _fitting(resolved: Resolved, chosen: Chosen, given: Given) -> Chosen:
    """Replaces a default runtime that would ignore parts of the topology; raises InvalidInput for a requested one."""
    while found := chosen.runtime.ignored(resolved.topology, given):
        if chosen.how != "default":
            raise InvalidInput(resolved.experiment.topology, found)
        chosen = chosen.after(
            f"{chosen.runtime.facts.what} would ignore an image or a command of {resolved.topology.name}"
        )
    return chosen


def _free_run_id(wanted: Wanted, topology: str, algorithm: str) -> str:
    """A free name for a new run, as far as is known before its directory is made."""
    if wanted.run_id is None:
        name = made_run_name(topology, algorithm, f"{datetime.now(UTC):%Y%m%d-%H%M%S}")
        names = (name if number == 1 else f"{name}-{number}" for number in count(1))
        return next(each for each in names if not (wanted.results / each).exists())
    way_to(wanted.results / checked_run_name(wanted.run_id), overwrite=wanted.overwrite)
    return wanted.run_id


# -- code that cannot be used ------------------------------------------------------------------------------------------


def _refuse_wrong_code(experiment: Experiment, runtime: Runtime, origin: Origin, say: Callable[[str], None]) -> None:
    """Loads the code that the experiment names, if any; raises InvalidInput at its place in the file."""
    choices = (experiment.algorithm, experiment.sharing, experiment.model, experiment.data)
    if not any(is_code(name) for name in (*(each.name for each in choices), experiment.overlay.kind)):
        return
    from testbed.node.named_code import wrong_code

    _refuse(wrong_code(experiment), runtime, origin, say)


def _refuse(wrong: WrongCode | None, runtime: Runtime, origin: Origin, say: Callable[[str], None]) -> None:
    """Raises InvalidInput for faulty code; only warns if the image may have what is missing here."""
    if wrong is None:
        return
    if runtime.facts.has_own_files and isinstance(wrong.problem, OnlyHere):
        say(f"warning: here the code fails, and only the image can tell whether it does there: {wrong.problem}")
        return
    report = origin.report()
    problem = wrong.problem
    hint = _NO_MODULE if "ModuleNotFoundError" in problem.message else problem.hint or _HINTS[wrong.key[0]]
    report.complain("code", str(problem), hint, *wrong.key)
    report.raise_if_wrong()
