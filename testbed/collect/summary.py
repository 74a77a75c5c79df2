"""Summarises a run in one record: the numbers by which runs are compared.

Takes a `RunResult`, gives a `RunSummary`; reads the run's health files. What was not measured is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from testbed.collect.health import RunHealth, WireTraffic, read_run_health, read_wire_traffic
from testbed.collect.journal import JournalResult
from testbed.collect.manual_actions import manual_actions
from testbed.collect.notes import notes
from testbed.collect.partial_records import Average, Evaluation
from testbed.collect.plan_head import PartialRuntimeChoice
from testbed.collect.run import STAYED, RunResult, State, representative_average
from testbed.collect.spread import Quantiles, Spread, quantiles, spread
from testbed.collect.time_to_target import Curve, bytes_until, looked_before, mean_curve, time_to

_COMMON = "test"
"""The data set that counts; where no node is evaluated on it, any other counts."""


@dataclass(frozen=True, slots=True)
class NodeCounts:
    planned: int | None
    finished: int
    failed: int
    missing: int
    crashed: int = 0
    """Finished nodes that the topology's events crashed and that did not come back."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes over all nodes. Wire bytes are the engine's count, headers and retransmissions included."""

    payload_sent: int | None = None
    payload_received: int | None = None
    metadata_sent: int | None = None
    metadata_received: int | None = None
    control_sent: int | None = None
    control_received: int | None = None
    wire_sent: int | None = None
    wire_received: int | None = None

    @property
    def sent(self) -> int | None:
        """Bytes sent as counted by the application."""
        if self.payload_sent is None or self.metadata_sent is None or self.control_sent is None:
            return None
        return self.payload_sent + self.metadata_sent + self.control_sent


@dataclass(frozen=True, slots=True)
class BytesPerNode:
    """Payload, metadata and control together."""

    sent: Spread
    received: Spread


@dataclass(frozen=True, slots=True)
class AveragedModel:
    """The average of the learners' models: the last one over all that were present."""

    accuracy: float | None = None
    loss: float | None = None
    nodes: int | None = None
    round: int | None = None
    t: float | None = None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """How many nodes were evaluated, and how often: medians of the gaps between a node's evaluations."""

    nodes: int
    every_rounds: float | None = None
    every_s: float | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run's numbers, in the order and with the names of the JSON that `testbed collect` prints."""

    run_id: str
    algorithm: str | None
    topology: str | None
    runtime: str | None
    runtime_choice: PartialRuntimeChoice
    engine: str | None
    data_plane: str | None
    """Which of the fabric's carried the packets."""
    seed: int | None
    nodes: NodeCounts
    wall_clock_s: float | None
    """Emulated time until the last learner's last round; later sends are not included."""
    drained_s: float | None
    """Emulated time until the last node's end."""
    round_s: Quantiles
    rounds: int | None
    """Most rounds that any learner finished."""
    rounds_least: int | None
    """Fewest rounds that any learner finished, among those that stayed until the end."""
    bytes: Bytes
    bytes_per_node: BytesPerNode
    accuracy: Spread
    loss: Spread
    evaluated: Evaluated
    averaged_model: AveragedModel
    target: float | None
    time_to_target_s: float | None
    target_between_s: tuple[float, float] | None
    """Last evaluation before the target was reached, and the first at which it was."""
    bytes_to_target: int | None
    consensus_distance: float | None
    health: str
    late_share: float | None
    """Time that late computing added to the most delayed node, as a share of the run's time."""
    time_scale: float | None
    ms_per_step: float | None
    asked_ms_per_step: float | None
    """What the experiment asked for; `ms_per_step` is larger where the machine could not train as fast."""
    congestion: str | None
    asked_congestion: str | None
    by_hand: tuple[str, ...]
    """Actions that people took during the run."""
    complete: bool
    """Whether nothing is missing and the run ended as it should."""
    problems: tuple[str, ...]


def summarise(result: RunResult, target: float | None = None) -> RunSummary:
    """The numbers of one run; those about a target only if one is given."""
    plan, learners = result.plan, result.learners
    looked = evaluated(result)
    last = [evaluations[-1] for _journal, evaluations in looked]
    curves = _curves(looked)
    time_to_target = None if target is None else time_to(target, mean_curve(curves))
    average = representative_average(result)
    judged = RunHealth("valid") if plan.is_virtual else read_run_health(result.directory.path)
    by_hand = () if plan.is_virtual else manual_actions(result.directory, result.log.done)
    stayed = [journal for journal in learners if journal.end in STAYED] or learners
    wire = WireTraffic() if plan.is_virtual else read_wire_traffic(result.directory.path)
    problems = (*result.problems, *notes(result, judged, by_hand, wire))
    return RunSummary(
        run_id=result.run_id,
        algorithm=plan.algorithm,
        topology=plan.topology,
        runtime=plan.runtime,
        runtime_choice=plan.runtime_choice,
        engine=plan.engine,
        data_plane=wire.data_plane,
        seed=plan.seed,
        nodes=_counts(result),
        wall_clock_s=_worked_s(learners),
        drained_s=max((journal.last_t for journal in result.journals), default=None),
        round_s=quantiles(durations(learners)),
        rounds=max((journal.round_count for journal in learners), default=None),
        rounds_least=min((journal.round_count for journal in stayed), default=None),
        bytes=_bytes(result.journals, wire),
        bytes_per_node=BytesPerNode(
            spread(journal.sent.bytes for journal in result.journals),
            spread(journal.received.bytes for journal in result.journals),
        ),
        accuracy=spread(each.accuracy for each in last if each.accuracy is not None),
        loss=spread(each.loss for each in last if each.loss is not None),
        evaluated=_evaluated(looked),
        averaged_model=_averaged(result, average),
        target=target,
        time_to_target_s=time_to_target,
        target_between_s=None if time_to_target is None else (looked_before(time_to_target, curves), time_to_target),
        bytes_to_target=None if time_to_target is None else bytes_until(time_to_target, result.journals),
        consensus_distance=average.consensus_distance if average else None,
        health=judged.health,
        late_share=judged.computing.added_share,
        time_scale=plan.time_scale,
        ms_per_step=plan.ms_per_step,
        asked_ms_per_step=plan.asked_ms_per_step,
        congestion=plan.congestion,
        asked_congestion=plan.asked_congestion,
        by_hand=by_hand,
        complete=not any(problem.incomplete for problem in problems),
        problems=tuple(problem.text for problem in problems),
    )


def evaluated(result: RunResult) -> list[tuple[JournalResult, tuple[Evaluation, ...]]]:
    """Evaluations on the data that counts, by time: of learners, or of others where no learner was evaluated."""
    chosen = [journal for journal in result.learners if journal.evaluations]
    chosen = chosen or [journal for journal in result.journals if journal.evaluations]
    common = any(each.on == _COMMON for journal in chosen for each in journal.evaluations)
    found = [
        (journal, tuple(each for each in journal.evaluations if each.on == _COMMON or not common)) for journal in chosen
    ]
    return [(journal, evaluations) for journal, evaluations in found if evaluations]


def durations(journals: Sequence[JournalResult]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Durations in seconds of all rounds of all nodes."""
    return np.concatenate([np.empty(0), *(journal.rounds.duration_s for journal in journals)])


def _worked_s(learners: Sequence[JournalResult]) -> float | None:
    """Time of the last round or evaluation; of the last record where there is neither."""
    worked = [journal.worked_t for journal in learners if journal.worked_t is not None]
    return max(worked or [journal.last_t for journal in learners], default=None)


def _evaluated(looked: Sequence[tuple[JournalResult, Sequence[Evaluation]]]) -> Evaluated:
    between = [pair for _journal, evaluations in looked for pair in pairwise(evaluations)]
    return Evaluated(
        len(looked),
        quantiles(float(after.round - before.round) for before, after in between).median,
        quantiles(after.t - before.t for before, after in between).median,
    )


def _curves(looked: Sequence[tuple[JournalResult, Sequence[Evaluation]]]) -> list[Curve]:
    curves = []
    for journal, evaluations in looked:
        known = [(each.t, each.accuracy) for each in evaluations if each.accuracy is not None]
        start_s = journal.starts_s[0] if journal.starts_s else 0.0
        points = np.array(known, dtype=np.float64).reshape(-1, 2)
        curves.append(Curve(start_s, points[:, 0], points[:, 1]))
    return curves


def _counts(result: RunResult) -> NodeCounts:
    states = Counter(node.state for node in result.nodes)
    planned = None if result.plan.nodes is None else len(result.nodes)
    crashed = sum(node.crashed_as_planned for node in result.nodes)
    return NodeCounts(planned, states[State.FINISHED], states[State.FAILED], states[State.MISSING], crashed)


def _bytes(journals: Sequence[JournalResult], wire: WireTraffic) -> Bytes:
    if not journals:
        return Bytes()
    return Bytes(
        payload_sent=sum(journal.sent.payload for journal in journals),
        payload_received=sum(journal.received.payload for journal in journals),
        metadata_sent=sum(journal.sent.metadata for journal in journals),
        metadata_received=sum(journal.received.metadata for journal in journals),
        control_sent=sum(journal.sent.control for journal in journals),
        control_received=sum(journal.received.control for journal in journals),
        wire_sent=wire.wire_sent,
        wire_received=wire.wire_received,
    )


def _averaged(result: RunResult, average: Average | None) -> AveragedModel:
    """The last average of as many nodes that was evaluated; when none was, only its nodes and round."""
    if average is None:
        return AveragedModel()
    tried = [
        each
        for each in result.log.averages
        if each.nodes == average.nodes and each.t <= average.t and (each.accuracy, each.loss) != (None, None)
    ]
    chosen = tried[-1] if tried else average
    return AveragedModel(chosen.accuracy, chosen.loss, chosen.nodes, chosen.round, chosen.t)
