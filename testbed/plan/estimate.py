"""The cost of a run: bytes and emulated time of a round, per node and in total.

Takes a `RunPlan`, gives an `Estimate`; touches nothing. If a few rounds have not too many messages, they are rehearsed
over the fluid network model. Otherwise the estimate is coarse: all messages of a round are sent at once and share their
links evenly, TCP starts slowly each time, and losses limit its rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median

import numpy as np
from numpy.typing import NDArray

from testbed.catalogue.exchanges import InTurns, WithPeers
from testbed.network.flows import Tcp
from testbed.network.flows.bandwidth_sharing import TWO_WAYS
from testbed.network.paths import Paths, compute_paths
from testbed.plan.model import RunPlan
from testbed.plan.outbox import outbox_of
from testbed.plan.rehearse import Rehearsal, rehearse
from testbed.plan.rehearsed_network import window_of
from testbed.plan.round_messages import Phase, Traffic, parts_of, traffic_of
from testbed.plan.traffic import assumptions, exchange_in, message_bytes, steps_per_round
from testbed.plan.uplinks import Uplinks

_MESSAGES = 8_000
"""Limits of a rehearsal: it takes about a second, and more rounds would not improve it."""
_MOST_MESSAGES = 16_000
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 12
_WINDOW_BYTES = 10 * 1448
_MOST_PAIRS = 20_000
"""The most messages whose routes are followed link by link; with more, only a node's own messages share its path."""
_FASTEST_BPS = 100e9
_DRAWS = 4
"""Rounds over which bytes are averaged where nodes draw their recipients."""


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
    transfers = _Transfers(plan)
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
    uplinks = _uplinks(plan, busy, transfers)
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
    return Estimate(
        message_bytes=message_bytes(plan),
        round_bytes=in_all,
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


def _uplinks(plan: RunPlan, compute: Mapping[int, float], transfers: _Transfers) -> Uplinks | None:
    """The uplinks of nodes that wait for nothing; None if nodes wait."""
    exchange = exchange_in(plan)
    if not isinstance(exchange, WithPeers) or not exchange.is_free or plan.overlay.sampler is not None:
        return None
    pairs: list[tuple[int, int]] = []
    sent: dict[int, float] = dict.fromkeys(compute, 0.0)
    for round_ in range(_DRAWS):
        for phase in traffic_of(plan, round_).phases:
            pairs.extend(phase.pairs)
            for (origin, _), size in zip(phase.pairs, phase.sizes, strict=True):
                sent[origin] += size / _DRAWS
    rates = {rank: rate * Tcp().goodput for rank, rate in transfers.uplink_bytes_s(pairs).items()}
    return Uplinks(outbox_of(plan.experiment).policy, compute, sent, rates)


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


class _Transfers:
    """How long messages take in the network as it is at the start."""

    def __init__(self, plan: RunPlan) -> None:
        self._network = plan.expanded_network()
        self._paths: Paths = compute_paths(self._network)

    def times(self, traffic: Traffic) -> list[NDArray[np.float64]]:
        """By phase and message; infinite without a path."""
        return [self._of_phase(phase) for phase in traffic.phases]

    def uplink_bytes_s(self, pairs: Sequence[tuple[int, int]]) -> dict[int, float]:
        """By sender: the rate of its best path."""
        best: dict[int, float] = {}
        for origin, dest in pairs:
            best[origin] = max(best.get(origin, 0.0), float(self._paths.bandwidth_bps[origin, dest]))
        return {rank: min(rate, _FASTEST_BPS) / 8 for rank, rate in best.items()}

    def latency_s(self, pairs: Sequence[tuple[int, int]]) -> float:
        """Median latency of pairs with a path; 0 if there are none."""
        latency_ms = self._paths.latency_ms[tuple(np.array(pairs, dtype=np.intp).reshape(-1, 2).T)]
        finite = latency_ms[np.isfinite(latency_ms)]
        return float(np.median(finite)) / 1000 if finite.size else 0.0

    def _of_phase(self, phase: Phase) -> NDArray[np.float64]:
        pairs = phase.pairs
        if not pairs:
            return np.array([], dtype=np.float64)
        origin, dest = np.array(pairs).T
        size = np.array(phase.sizes, dtype=np.float64)
        paths = self._paths
        there_s = paths.latency_ms[origin, dest] / 1e3
        rtt_s = there_s + paths.latency_ms[dest, origin] / 1e3
        rate = np.minimum(self._shares(pairs, origin, dest), _FASTEST_BPS) / 8 * Tcp().goodput
        sent = {pair for pair, nbytes in zip(pairs, phase.sizes, strict=True) if nbytes > _WINDOW_BYTES}
        # where data in the other direction delays the acknowledgements
        rate = rate / np.array([1.0 + TWO_WAYS * (pair[::-1] in sent) for pair in pairs])
        with np.errstate(invalid="ignore"):
            rate = np.minimum(rate, _held_down_bytes_s(size, rtt_s, paths.loss[origin, dest]))
            return _tcp_s(size, there_s, rtt_s, rate)

    def _shares(
        self, pairs: tuple[tuple[int, int], ...], origin: NDArray[np.int_], dest: NDArray[np.int_]
    ) -> NDArray[np.float64]:
        """Bits per second of each message when all of them share their links evenly."""
        nodes = self._network.node_count
        if len(pairs) > _MOST_PAIRS:
            at_once = np.maximum(np.bincount(origin, minlength=nodes)[origin], np.bincount(dest, minlength=nodes)[dest])
            shares: NDArray[np.float64] = self._paths.bandwidth_bps[origin, dest] / at_once
            return shares
        routes = [self._paths.links(*pair) for pair in pairs]
        used = np.bincount([link for route in routes for link in route], minlength=self._network.link_count)
        share = self._network.rate_bps / np.maximum(used, 1)
        return np.array([min((share[link] for link in route), default=0.0) for route in routes])


def _held_down_bytes_s(
    size: NDArray[np.float64], rtt_s: NDArray[np.float64], loss: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The average rate with losses, from the windows of cubic or reno, if losses occur within a message."""
    mss = float(Tcp().mss_bytes)
    some = np.maximum(loss, 1e-12)
    windows = np.maximum(1.22 * some**-0.5, 1.17 * (np.where(np.isfinite(rtt_s), rtt_s, 0.0) / some) ** 0.75)
    held: NDArray[np.float64] = np.where(size * loss > mss, windows * mss / np.maximum(rtt_s, 1e-6), np.inf)
    return held


def _tcp_s(
    size: NDArray[np.float64], there_s: NDArray[np.float64], rtt_s: NDArray[np.float64], rate: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Until the last byte has arrived: the window doubles every round trip until it fills the path."""
    left = size.copy()
    taken = there_s.copy()
    window = float(_WINDOW_BYTES)
    starting = (left > window) & (window < rate * rtt_s) & np.isfinite(rtt_s)
    while starting.any():
        left[starting] -= window
        taken[starting] += rtt_s[starting]
        window *= 2
        starting &= (left > window) & (window < rate * rtt_s)
    return np.where((rate > 0) & np.isfinite(rtt_s), taken + left / np.maximum(rate, 1e-9), np.inf)
