"""The step times of earlier runs with the same training, in the same folder of results.

Takes the folder of results and an unfinished plan, gives runs and their figures; reads plans and summaries. Reusing a
step time keeps runs comparable: measurements on the same machine differ a little.
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
"""Limit of runs that are read, latest first."""
_TRAINED = (("model",), ("data", "name"), ("training", "batch"), ("training", "steps"), ("training", "epochs"))
"""Keys of the experiment that determine the time of a step and the number of steps. `compute` must be equal, too."""


@dataclass(frozen=True)
class EarlierRun:
    run_id: str
    time_scale: float
    step_ms: float
    """The planned step, in emulated time."""
    was_too_much: bool
    """The run was overloaded."""


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
    """Earlier runs with the same training in real processes, latest first."""
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
        return []  # the folder is not readable
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
