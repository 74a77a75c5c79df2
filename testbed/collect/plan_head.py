"""Reads the parts of a plan that a summary needs, even from a damaged one.

Takes the path of a plan.json, gives a `PlanHead` and the problems; reads that file. Missing or unexpected parts are
None: a summary without its plan is better than none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from testbed.collect.problems import Problem
from testbed.run_files import read_plain

LARGEST_PLAN = 256 << 20
FAULTS = (OSError, msgspec.MsgspecError, ValueError, RecursionError)

_Value = TypeVar("_Value")


class PartialNode(msgspec.Struct, frozen=True):
    name: str
    rank: int | None = None
    learner: int | None = None


class _Algorithm(msgspec.Struct):
    name: str | None = None


class _Stop(msgspec.Struct):
    rounds: int | None = None


class _Network(msgspec.Struct):
    congestion: str | None = None


class _Asked(msgspec.Struct):
    ms_per_step: float | None = None
    congestion: str | None = None


class _Experiment(msgspec.Struct):
    algorithm: _Algorithm | None = None
    network: _Network | None = None
    stop: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class PartialRuntimeChoice:
    """How the runtime was chosen: `asked` for, by `default`, or a `fallback`; None in plans that do not say."""

    how: str | None = None
    why: str | None = None


class RuntimeFacts(msgspec.Struct, frozen=True):
    """Facts about a run's runtime, as recorded in its plan."""

    is_virtual: bool
    is_judged: bool


def was_virtual(runtime: str | None, facts: RuntimeFacts | None) -> bool:
    """Whether a run was in virtual time; plans of older versions have only the runtime's name."""
    return runtime == "sim" if facts is None else facts.is_virtual


def _was_judged(runtime: str | None, facts: RuntimeFacts | None) -> bool:
    return runtime in ("local", "docker") if facts is None else facts.is_judged


class _Parts(msgspec.Struct):
    """The undecoded parts: a wrong one must not hide the others."""

    run_id: msgspec.Raw = msgspec.Raw(b"null")
    seed: msgspec.Raw = msgspec.Raw(b"null")
    runtime: msgspec.Raw = msgspec.Raw(b"null")
    engine: msgspec.Raw = msgspec.Raw(b"null")
    topology_name: msgspec.Raw = msgspec.Raw(b"null")
    experiment: msgspec.Raw = msgspec.Raw(b"null")
    nodes: msgspec.Raw = msgspec.Raw(b"null")
    ms_per_step: msgspec.Raw = msgspec.Raw(b"null")
    time_scale: msgspec.Raw = msgspec.Raw(b"null")
    asked: msgspec.Raw = msgspec.Raw(b"null")
    runtime_choice: msgspec.Raw = msgspec.Raw(b"null")
    runtime_facts: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True)
class PlanHead:
    run_id: str | None = None
    seed: int | None = None
    runtime: str | None = None
    engine: str | None = None
    topology: str | None = None
    algorithm: str | None = None
    rounds: int | None = None
    """Maximum number of rounds; None where only time or accuracy ends the run."""
    nodes: tuple[PartialNode, ...] | None = None
    time_scale: float | None = None
    ms_per_step: float | None = None
    asked_ms_per_step: float | None = None
    """What the experiment asked for; None where the plan does not say, as in older versions."""
    congestion: str | None = None
    asked_congestion: str | None = None
    runtime_choice: PartialRuntimeChoice = PartialRuntimeChoice()
    is_virtual: bool = False
    is_judged: bool = False
    """Whether control writes the run's health at the very end."""


def read_plan_bytes(path: Path) -> tuple[bytes | None, list[Problem]]:
    """The plan's text; None and a problem when it is unreadable or too large."""
    try:
        return read_plain(path, path.parent, LARGEST_PLAN), []
    except FileNotFoundError:
        return None, [Problem(f"{path.name} is missing: which nodes should be here is unknown")]
    except OSError as problem:
        return None, [Problem(f"{path.name} cannot be read: {problem.strerror or type(problem).__name__}")]


def read_plan_head(path: Path) -> tuple[PlanHead, list[Problem]]:
    text, problems = read_plan_bytes(path)
    if text is None:
        return PlanHead(), problems
    try:
        parts = msgspec.json.decode(text, type=_Parts)
    except FAULTS as fault:
        return PlanHead(), [Problem(f"{path.name} is no plan: {fault}")]

    def part(name: str, raw: msgspec.Raw, kind: type[_Value], *, needed: bool = True) -> _Value | None:
        try:
            value = msgspec.json.decode(raw, type=kind | None)
        except FAULTS as fault:
            problems.append(Problem(f"{path.name}: {name} is not as expected: {fault}", incomplete=name == "nodes"))
            return None
        if value is None and needed:
            problems.append(Problem(f"{path.name} has no {name}", incomplete=name == "nodes"))
        return value

    experiment = part("experiment", parts.experiment, _Experiment)
    algorithm = experiment.algorithm if experiment else None
    nodes = part("nodes", parts.nodes, list[PartialNode])
    asked = part("asked", parts.asked, _Asked, needed=False) or _Asked()
    network = experiment.network if experiment else None
    runtime, facts = part("runtime", parts.runtime, str), _optional(parts.runtime_facts, RuntimeFacts)
    head = PlanHead(
        run_id=part("run_id", parts.run_id, str),
        seed=part("seed", parts.seed, int),
        runtime=runtime,
        engine=part("engine", parts.engine, str),
        topology=part("topology_name", parts.topology_name, str),
        algorithm=algorithm.name if algorithm else None,
        rounds=None if experiment is None else _rounds(experiment.stop),
        nodes=None if nodes is None else tuple(nodes),
        time_scale=part("time_scale", parts.time_scale, float, needed=False),
        ms_per_step=part("ms_per_step", parts.ms_per_step, float, needed=False),
        asked_ms_per_step=asked.ms_per_step,
        congestion=network.congestion if network else None,
        asked_congestion=asked.congestion,
        runtime_choice=_optional(parts.runtime_choice, PartialRuntimeChoice) or PartialRuntimeChoice(),
        is_virtual=was_virtual(runtime, facts),
        is_judged=_was_judged(runtime, facts),
    )
    return head, problems


def _rounds(stop: msgspec.Raw) -> int | None:
    found = _optional(stop, _Stop)
    return None if found is None else found.rounds


def _optional(raw: msgspec.Raw, kind: type[_Value]) -> _Value | None:
    """A part without which results are still complete."""
    try:
        return msgspec.json.decode(raw, type=kind | None)
    except FAULTS:
        return None
