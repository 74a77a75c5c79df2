"""The cost of a run: bytes and emulated time of a round, per node and in total.

Takes a `RunPlan`, gives an `Estimate`; touches nothing. If a few rounds have not too many messages, they are rehearsed
over the fluid network model. Otherwise the estimate is coarse (`transfer_times.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from statistics import median

import numpy as np
from numpy.typing import NDArray

from testbed.catalogue.exchanges import InTurns, WithPeers
from testbed.plan.model import RunPlan
from testbed.plan.rehearse import Rehearsal, rehearse
from testbed.plan.rehearsed_network import window_of
from testbed.plan.round_messages import Traffic, parts_of, traffic_of
from testbed.plan.traffic import assumptions, exchange_in, message_bytes, shuffled_bytes_s, steps_per_round
from testbed.plan.transfer_times import TransferTimes
from testbed.plan.uplinks import Uplinks, uplinks_of

_MESSAGES = 8_000
"""Limits of a rehearsal: it takes about a second, and more rounds would not improve it."""
_MOST_MESSAGES = 16_000
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 12


@dataclass(frozen=True)
class Estimate:
    """Estimated cost. Figures are None if the number of parameters, or the end of the run, is unknown."""

    message_bytes: int | None
    """One model as it is sent, metadata included; None if a researcher's own sharing does not declare it."""
    round_bytes: int | None
    """Sent by all nodes in one round."""
    round_bytes_node: int | None
    """Sent by the median node; a server sends more."""
    compute_s: float
    """Computing time of a round of the median node."""
    compute_slowest_s: float
    transfer_s: float | None
    """Time of one message, for the median pair."""
    transfer_slowest_s: float | None
    round_s: float | None
    rounds: int | None
    total_s: float | None
    total_bytes: int | None
    peak_bytes_s: float | None = None
    """Rate of all nodes together, over the busiest window (`rehearse.window_of`)."""
    peak_is_bound: bool = False
    """The peak is an upper bound, as it was not rehearsed."""
    unreachable: int = 0
    """Pairs of the overlay that have no path at the start."""
    assumed: tuple[str, ...] = ()
    """Assumptions about the experiment's own code that the figures rest on, as clauses."""
    uplinks: Uplinks | None = None
    """What uplinks carry, if nodes wait for nothing."""


def estimate(plan: RunPlan) -> Estimate:
    """Estimates one round and the whole run."""
    learners = [node for node in plan.nodes if node.learner is not None]
    step_s = steps_per_round(plan) * plan.ms_per_step / 1e3
    compute = {node.rank: step_s * node.pace[0][1] for node in learners}
    middle, slowest = median(compute.values()), max(compute.values())
    rounds, limit_s = plan.experiment.stop.rounds, plan.experiment.stop.time_s
    if plan.parameters is None:
        return Estimate(None, None, None, middle, slowest, None, None, None, rounds, None, None)
    traffic = traffic_of(plan)
    pairs = [pair for phase in traffic.phases for pair in phase.pairs]
    sent = dict.fromkeys((node.rank for node in plan.nodes), 0)
    for phase in traffic.phases:
        for (origin, _), size in zip(phase.pairs, phase.sizes, strict=True):
            sent[origin] += size
    in_all = sum(sent.values()) + traffic.control
    transfers = TransferTimes(plan)
    phases = transfers.times(traffic)
    times = np.concatenate([np.array([], dtype=np.float64), *phases])
    finite = times[np.isfinite(times)]
    window_s = window_of(transfers.latency_s(pairs))
    busy = _with_evaluation(plan, compute)
    rehearsal = _rehearsal(plan, busy, len(pairs), window_s) if finite.size == times.size > 0 else None
    if rehearsal is not None:
        # With slow links, none may have arrived so far.
        finite = np.array(rehearsal.transfers_s) if rehearsal.transfers_s else finite
        round_s = rehearsal.steady_s
    else:
        round_s = _round_s(plan, compute, traffic, phases) if finite.size else slowest
    uplinks = uplinks_of(plan, busy, transfers, {} if rehearsal is None else rehearsal.shares)
    total_s = None
    if rounds is not None and uplinks is not None:
        total_s = uplinks.total_s(rounds)
    elif rounds is not None:
        total_s = rounds * round_s if rehearsal is None else rehearsal.total_s(rounds)
    if rehearsal is not None:
        peak_bytes_s = rehearsal.peak_bytes_s
    else:
        # No sender is faster than its best path.
        peak_bytes_s = min(sum(transfers.uplink_bytes_s(pairs).values()), in_all / window_s)
    done: float | None = rounds
    if limit_s is not None and (total_s is None or limit_s < total_s):
        total_s = limit_s
        done = limit_s / round_s if round_s else None
    total_bytes = None if done is None else round(in_all * done)
    if done is not None and uplinks is not None:
        total_bytes = uplinks.total_bytes(rounds, limit_s) + round(traffic.control * done)
    shuffled = shuffled_bytes_s(plan)
    if total_bytes is not None and total_s is not None:
        total_bytes += round(shuffled * total_s)
    return Estimate(
        message_bytes=message_bytes(plan),
        round_bytes=in_all + round(shuffled * round_s),
        round_bytes_node=int(median(sent[node.rank] for node in learners)),
        compute_s=middle,
        compute_slowest_s=slowest,
        transfer_s=float(np.median(finite)) if finite.size else None,
        transfer_slowest_s=float(finite.max()) if finite.size else None,
        round_s=round_s,
        rounds=rounds,
        total_s=total_s,
        total_bytes=total_bytes,
        peak_bytes_s=peak_bytes_s,
        peak_is_bound=rehearsal is None,
        unreachable=int(np.isinf(times).sum()),
        assumed=assumptions(plan),
        uplinks=uplinks,
    )


def _rehearsal(plan: RunPlan, compute: Mapping[int, float], messages: int, window_s: float) -> Rehearsal | None:
    """Rehearses the first rounds, unless they have too many messages or never end."""
    rounds = max(_LEAST_ROUNDS, min(_MOST_ROUNDS, _MESSAGES // messages))
    if plan.experiment.stop.rounds is not None:
        rounds = min(rounds, plan.experiment.stop.rounds)
    if rounds * messages > _MOST_MESSAGES:
        return None
    return rehearse(plan, parts_of(plan), compute, rounds, window_s)


def _with_evaluation(plan: RunPlan, compute: Mapping[int, float]) -> Mapping[int, float]:
    """Computing times of rounds, with the evaluations that take emulated time."""
    evaluation = plan.experiment.evaluation
    if evaluation.mode != "inline":
        return compute
    # A forward pass is a third of a step, and the rounds between evaluations share it.
    steps = evaluation.samples / plan.experiment.training.batch / 3 / evaluation.every
    pace = {node.rank: node.pace[0][1] for node in plan.nodes}
    return {rank: took + steps * plan.ms_per_step / 1e3 * pace[rank] for rank, took in compute.items()}


def _round_s(
    plan: RunPlan,
    compute: dict[int, float],
    traffic: Traffic,
    phases: list[NDArray[np.float64]],
) -> float:
    """The duration of a round once all nodes wait for each other, or if none waits."""
    if isinstance(exchange := exchange_in(plan), WithPeers) and exchange.pause_s is not None:
        return max(compute.values()) + exchange.pause_s
    if len(traffic.phases) == 2:  # there, compute, and back
        if isinstance(exchange, InTurns):  # each model meets a slow node at some time
            return max(compute.values()) + sum(
                float(np.max(ways, initial=0.0, where=np.isfinite(ways))) for ways in phases
            )
        ranks = [rank for _, rank in traffic.phases[0].pairs]
        round_trips: list[float] = (phases[0] + phases[1]).tolist()
        return max(compute[rank] + way for rank, way in zip(ranks, round_trips, strict=True) if isfinite(way))
    ready: dict[tuple[int, int], float] = {
        (origin, dest): compute[origin] + way
        for (origin, dest), way in zip(traffic.phases[0].pairs, phases[0].tolist(), strict=True)
        if isfinite(way)
    }
    if plan.overlay.neighbours is not None:
        # The same pair meets again and again: each waits for the other in turn, and the slowest pair holds up all.
        return max((ready[pair] + ready.get(pair[::-1], ready[pair])) / 2 for pair in ready)
    last: dict[int, float] = {}
    for (_, dest), at in ready.items():
        last[dest] = max(last.get(dest, 0.0), at)
    return sum(last[rank] for rank in sorted(last)) / len(last)
