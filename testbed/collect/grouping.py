"""Groups runs that differ only in their seed.

Takes run directories and their summaries, gives groups with means and 95 % intervals; reads the plans.

`repetition` decides whether two runs are repetitions of one another. A run whose plan cannot be read is a group of its
own. A seed counts once, however often it was run: the same seed again is no new sample. Of its runs a complete one is
preferred, and then the last by name, which is the newest with the names that `deploy` gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.collect.health import NOT_VALID
from testbed.collect.repetition import ComparableSettings, differences, read_settings
from testbed.collect.summary import RunSummary
from testbed.rundir import RunDirectory

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """Estimate of the mean over seeds with a confidence interval by Student's t, which assumes normal values."""

    n: int
    """Number of runs with a value: fewer than the group's where some never reached the target."""
    mean: float | None = None
    std: float | None = None
    """Sample standard deviation (n - 1); None for a single run."""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class RunGroup:
    algorithm: str | None
    topology: str | None
    runtime: str | None
    engine: str | None
    differs: dict[str, str]
    """Settings, by the plan's keys, that not all groups share."""
    runs: tuple[str, ...]
    """The runs that count: one for each seed."""
    left_out: tuple[str, ...]
    """Runs of seeds for which another run counts."""
    seeds: tuple[int | None, ...]
    complete: int
    """How many of the runs are complete; the others count too."""
    not_valid: tuple[str, ...]
    """Runs that were overloaded or broken; they count too."""
    target: float | None
    wall_clock_s: MeanEstimate
    drained_s: MeanEstimate
    round_s: MeanEstimate
    """Estimate over the runs' medians."""
    sent_bytes: MeanEstimate
    accuracy: MeanEstimate
    loss: MeanEstimate
    averaged_accuracy: MeanEstimate
    time_to_target_s: MeanEstimate
    bytes_to_target: MeanEstimate
    consensus_distance: MeanEstimate


def settings_of(run: RunDirectory, by_hand: Sequence[str] = (), data_plane: str | None = None) -> ComparableSettings:
    """Settings that are equal for runs that differ only in their seed; a run with manual actions equals no other."""
    what = read_settings(run.plan, data_plane) or ComparableSettings(f"alone {run.path}")
    if not by_hand:
        return what
    return ComparableSettings(
        f"alone {run.path}", what.settings | {"by_hand": f"{'+'.join(by_hand)} ({run.path.name})"}
    )


def group_runs(runs: Iterable[tuple[ComparableSettings, RunSummary]]) -> list[RunGroup]:
    """Groups runs with equal keys, in the order of their first runs."""
    found: dict[str, list[tuple[ComparableSettings, RunSummary]]] = {}
    for what, run in runs:
        found.setdefault(what.key, []).append((what, run))
    differing = differences([members[0][0] for members in found.values()])
    return [
        _group([run for _asked, run in members], differs)
        for members, differs in zip(found.values(), differing, strict=True)
    ]


def _one_a_seed(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """One run for each seed, by name; runs with an unknown seed all count."""
    ranked = sorted(runs, key=lambda run: (run.complete, run.run_id))
    chosen = {("unknown", run.run_id) if run.seed is None else ("seed", str(run.seed)): run for run in ranked}
    return sorted(chosen.values(), key=lambda run: run.run_id)


def estimate(values: Iterable[float | None]) -> MeanEstimate:
    known = [value for value in values if value is not None]
    if not known:
        return MeanEstimate(0)
    mean = math.fsum(known) / len(known)
    if len(known) == 1:
        return MeanEstimate(1, mean)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1))
    from scipy.special import stdtrit  # slow to import, and rarely needed

    half = float(stdtrit(len(known) - 1, (1 + CONFIDENCE) / 2)) * std / math.sqrt(len(known))
    return MeanEstimate(len(known), mean, std, mean - half, mean + half)


def _group(found: Sequence[RunSummary], differs: dict[str, str]) -> RunGroup:
    runs = _one_a_seed(found)
    chosen = {id(run) for run in runs}
    first = runs[0]
    return RunGroup(
        algorithm=first.algorithm,
        topology=first.topology,
        runtime=first.runtime,
        engine=first.engine,
        differs=differs,
        runs=tuple(run.run_id for run in runs),
        left_out=tuple(run.run_id for run in found if id(run) not in chosen),
        seeds=tuple(run.seed for run in runs),
        complete=sum(run.complete for run in runs),
        not_valid=tuple(f"{run.run_id} ({run.health})" for run in runs if run.health in NOT_VALID),
        target=first.target,
        wall_clock_s=estimate(run.wall_clock_s for run in runs),
        drained_s=estimate(run.drained_s for run in runs),
        round_s=estimate(run.round_s.median for run in runs),
        sent_bytes=estimate(run.bytes.sent for run in runs),
        accuracy=estimate(run.accuracy.mean for run in runs),
        loss=estimate(run.loss.mean for run in runs),
        averaged_accuracy=estimate(run.averaged_model.accuracy for run in runs),
        time_to_target_s=estimate(run.time_to_target_s for run in runs),
        bytes_to_target=estimate(run.bytes_to_target for run in runs),
        consensus_distance=estimate(run.consensus_distance for run in runs),
    )
