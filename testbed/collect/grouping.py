"""Runs that differ only in their seed, put together.

Takes run directories and their summaries, gives groups with means and 95 % intervals; reads the plans.

Two runs are of one group when their plans are equal without what tells repetitions apart: run id, time of creation,
seeds, the hashes of the input files, and what follows from the experiment and the seed: the overlay's edges (unless
they come from a file), the sizes of the parts of the data, and the paces of the nodes.
A run whose plan cannot be read is a group of its own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from testbed.collect.plan_head import FAULTS, read_plan_bytes
from testbed.collect.summary import RunSummary
from testbed.rundir import RunDirectory

CONFIDENCE = 0.95
_APART = ("run_id", "created", "seed", "seeds", "inputs", "samples")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the mean over more seeds is likely to be: Student's t, which supposes that runs are normally spread."""

    n: int
    """Runs that have a value: fewer than the group's where some never reached the target."""
    mean: float | None = None
    std: float | None = None
    """Of the sample, so it divides by n - 1; None for a single run."""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    algorithm: str | None
    topology: str | None
    runtime: str | None
    engine: str | None
    runs: tuple[str, ...]
    seeds: tuple[int | None, ...]
    complete: int
    """How many of the runs are; the others are in the numbers all the same."""
    target: float | None
    wall_clock_s: Estimate
    round_s: Estimate
    """Of the runs' medians."""
    sent_bytes: Estimate
    accuracy: Estimate
    loss: Estimate
    averaged_accuracy: Estimate
    time_to_target_s: Estimate
    bytes_to_target: Estimate
    consensus_distance: Estimate


def group_key(run: RunDirectory) -> str:
    """Equal for runs that differ only in their seed."""
    text, _problems = read_plan_bytes(run.plan)
    try:
        plan = msgspec.json.decode(text, type=dict[str, object]) if text is not None else None
    except FAULTS:
        plan = None
    if plan is None:
        return f"alone {run.path}"
    kept = {key: value for key, value in plan.items() if key not in _APART}
    experiment = kept.get("experiment")
    if isinstance(experiment, dict):
        kept["experiment"] = {key: value for key, value in experiment.items() if key != "seed"}
        overlay = experiment.get("overlay")
        if isinstance(overlay, dict) and overlay.get("kind") != "file":
            kept.pop("overlay", None)
    nodes = kept.get("nodes")
    if isinstance(nodes, list):
        kept["nodes"] = [_without_pace(node) for node in nodes]
    try:
        return hashlib.sha256(msgspec.json.encode(kept, order="deterministic")).hexdigest()
    except FAULTS:
        return f"alone {run.path}"


def _without_pace(node: object) -> object:
    return {key: value for key, value in node.items() if key != "pace"} if isinstance(node, dict) else node


def group_runs(runs: Iterable[tuple[str, RunSummary]]) -> list[Group]:
    """Groups of runs with equal keys, in the order of their first runs."""
    found: dict[str, list[RunSummary]] = {}
    for key, run in runs:
        found.setdefault(key, []).append(run)
    return [_group(members) for members in found.values()]


def estimate(values: Iterable[float | None]) -> Estimate:
    known = [value for value in values if value is not None]
    if not known:
        return Estimate(0)
    mean = math.fsum(known) / len(known)
    if len(known) == 1:
        return Estimate(1, mean)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1))
    from scipy.special import stdtrit  # takes a while to import, and most calls do without

    half = float(stdtrit(len(known) - 1, (1 + CONFIDENCE) / 2)) * std / math.sqrt(len(known))
    return Estimate(len(known), mean, std, mean - half, mean + half)


def _group(runs: Sequence[RunSummary]) -> Group:
    first = runs[0]
    return Group(
        algorithm=first.algorithm,
        topology=first.topology,
        runtime=first.runtime,
        engine=first.engine,
        runs=tuple(run.run_id for run in runs),
        seeds=tuple(run.seed for run in runs),
        complete=sum(run.complete for run in runs),
        target=first.target,
        wall_clock_s=estimate(run.wall_clock_s for run in runs),
        round_s=estimate(run.round_s.median for run in runs),
        sent_bytes=estimate(run.bytes.sent for run in runs),
        accuracy=estimate(run.accuracy.mean for run in runs),
        loss=estimate(run.loss.mean for run in runs),
        averaged_accuracy=estimate(run.averaged_model.accuracy for run in runs),
        time_to_target_s=estimate(run.time_to_target_s for run in runs),
        bytes_to_target=estimate(run.bytes_to_target for run in runs),
        consensus_distance=estimate(run.consensus_distance for run in runs),
    )
