"""How long a local step took in the runs beside this one that trained the same.

Takes the folder of results and a plan in the making, gives those runs and their figures; reads plans and summaries.
Runs that somebody compares must not differ in what this machine happened to measure before each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from testbed.collect.health import OVERLOADED, health_word
from testbed.collect.plan_head import FAULTS, RuntimeFacts, read_plan_bytes, was_virtual
from testbed.errors import UsageProblem
from testbed.rundir import RunDirectory, find_runs

if TYPE_CHECKING:
    from testbed.plan.model import RunPlan

_MOST_READ = 50
"""Of large folders the latest runs only."""
_TRAINED = (("model",), ("data", "name"), ("training", "batch"), ("training", "steps"), ("training", "epochs"))
"""What a step, and how often somebody needs one, depends on; and `compute`, in which it was not chosen."""


@dataclass(frozen=True)
class EarlierRun:
    run_id: str
    time_scale: float
    step_ms: float
    """Of emulated time, as planned."""
    was_too_much: bool
    """This machine did not keep up with it."""


class _Node(msgspec.Struct):
    learner: int | None = None


class _Plan(msgspec.Struct):
    runtime: str
    nodes: list[_Node]
    experiment: dict[str, object]
    ms_per_step: float
    time_scale: float = 1.0
    runtime_facts: RuntimeFacts | None = None


def earlier_alike(results: Path, plan: RunPlan) -> list[EarlierRun]:
    """Those whose step was found out, too; the last one first."""
    sought = _trained(plan.experiment.model_dump(mode="json"), len(plan.learners))
    alike = []
    for run in _latest(results):
        found = _read(run)
        if (
            found is not None
            and not was_virtual(found.runtime, found.runtime_facts)
            and _trained(found.experiment, sum(node.learner is not None for node in found.nodes)) == sought
        ):
            too_much = health_word(run.path) == OVERLOADED
            alike.append(EarlierRun(run.path.name, found.time_scale, found.ms_per_step, too_much))
    return alike


def _latest(results: Path) -> list[RunDirectory]:
    try:
        runs = list(find_runs(results)) if results.is_dir() else []
    except UsageProblem:
        return []  # whoever may only write there has nothing to compare with
    return sorted(runs, key=_made, reverse=True)[:_MOST_READ]


def _made(run: RunDirectory) -> float:
    try:
        return run.plan.stat().st_mtime
    except OSError:
        return 0.0


def _read(run: RunDirectory) -> _Plan | None:
    text, _problems = read_plan_bytes(run.plan)
    try:
        return None if text is None else msgspec.json.decode(text, type=_Plan)
    except FAULTS:
        return None


def _trained(experiment: object, learners: int) -> list[object]:
    return [learners, _at(experiment, ("compute",)), *(_at(experiment, path) for path in _TRAINED)]


def _at(value: object, path: tuple[str, ...]) -> object:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
