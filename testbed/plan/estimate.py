"""What a run will cost: bytes and emulated time of a round, by node and in all.

Takes a `RunPlan`, gives an `Estimate`; touches nothing. It is a sum on the back of an envelope: every message of a
round is sent at once and shares its links evenly, TCP starts slowly each time, nothing is lost, nobody fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from statistics import median

import numpy as np
from numpy.typing import NDArray

from testbed.network.graph import expand
from testbed.network.paths import Paths, compute_paths
from testbed.plan.model import RunPlan
from testbed.plan.overlay_graph import dynamic_graph
from testbed.seeds import stream

HEADER_BYTES = 60
"""Metadata of a message, about."""
CONTROL_BYTES = 40
_WINDOW_BYTES = 10 * 1448
_MOST_PAIRS = 20_000
"""Whose routes are followed link by link; with more, a node's own messages share its path."""
_FASTEST_BPS = 100e9


@dataclass(frozen=True)
class Estimate:
    """None where the number of parameters, or when the run ends, is not known."""

    message_bytes: int | None
    """One model as it is sent, metadata included."""
    round_bytes: int | None
    """Sent by all nodes in one round."""
    round_bytes_node: int | None
    """Sent by the node in the middle; a server sends more."""
    compute_s: float
    """Of a round, by the node in the middle."""
    compute_slowest_s: float
    transfer_s: float | None
    """Of one message, by the pair in the middle."""
    transfer_slowest_s: float | None
    round_s: float | None
    rounds: int | None
    total_s: float | None
    total_bytes: int | None
    unreachable: int = 0
    """Pairs that should exchange and have no path at the start."""


@dataclass(frozen=True)
class _Traffic:
    """Messages of one round: from, to, and how many bytes; those of a phase go at the same time."""

    phases: tuple[tuple[tuple[int, int], ...], ...]
    size: int
    control: int = 0
    """Bytes of small messages in all."""


def message_bytes(plan: RunPlan) -> int | None:
    """One model as this plan's way of sharing sends it."""
    if plan.parameters is None:
        return None
    sharing, dense = plan.experiment.sharing, 4 * plan.parameters
    fraction, above = sharing.options.get("fraction"), sharing.options.get("dense_above")
    if sharing.name not in ("random", "topk") or not isinstance(fraction, float) or not isinstance(above, float):
        return dense + HEADER_BYTES
    if fraction >= above:
        return dense + HEADER_BYTES
    kept = round(fraction * plan.parameters)
    return (4 if sharing.name == "random" else 8) * kept + HEADER_BYTES


def steps_per_round(plan: RunPlan) -> int:
    """Local steps of a node between two exchanges; with epochs, of the node whose part of the data is in the middle."""
    training = plan.experiment.training
    if plan.experiment.algorithm.name == "parameter-server":
        return 1  # a gradient is sent as soon as there is one
    if training.steps is not None:
        return training.steps
    samples = median(plan.samples) if plan.samples else training.batch
    return int((training.epochs or 1) * max(1, -(-samples // training.batch)))


def estimate(plan: RunPlan) -> Estimate:
    """What one round and the whole run will cost."""
    size = message_bytes(plan)
    learners = [node for node in plan.nodes if node.learner is not None]
    step_s = steps_per_round(plan) * plan.ms_per_step / 1e3
    compute = {node.rank: step_s * node.pace[0][1] for node in learners}
    middle, slowest = median(compute.values()), max(compute.values())
    rounds = plan.experiment.stop.rounds
    if size is None:
        return Estimate(None, None, None, middle, slowest, None, None, None, rounds, None, None)
    traffic = _traffic(plan, size)
    pairs = [pair for phase in traffic.phases for pair in phase]
    sent = dict.fromkeys((node.rank for node in plan.nodes), 0)
    for origin, _ in pairs:
        sent[origin] += traffic.size
    in_all = sum(sent.values()) + traffic.control
    phases = _Transfers(plan).times(traffic)
    times = np.concatenate([np.array([], dtype=np.float64), *phases])
    finite = times[np.isfinite(times)]
    round_s = _round_s(plan, compute, traffic, phases) if finite.size else slowest
    total_s = None if rounds is None else rounds * round_s
    if (limit := plan.experiment.stop.time_s) is not None:
        total_s = limit if total_s is None else min(limit, total_s)
    done = rounds if total_s is None or round_s == 0 else total_s / round_s
    return Estimate(
        message_bytes=size,
        round_bytes=in_all,
        round_bytes_node=int(median(sent[node.rank] for node in learners)),
        compute_s=middle,
        compute_slowest_s=slowest,
        transfer_s=float(np.median(finite)) if finite.size else None,
        transfer_slowest_s=float(finite.max()) if finite.size else None,
        round_s=round_s,
        rounds=rounds,
        total_s=total_s,
        total_bytes=None if done is None else round(in_all * done),
        unreachable=int(times.size - finite.size),
    )


def _traffic(plan: RunPlan, size: int) -> _Traffic:
    learners, overlay = plan.learners, plan.overlay
    algorithm = plan.experiment.algorithm
    if plan.server is not None and overlay.kind == "star":
        share = algorithm.options.get("participation", 1.0)
        count = max(1, round(len(learners) * share)) if isinstance(share, float) else len(learners)
        asked = sorted(stream(plan.seed, "estimate").sample(learners, count))
        down = tuple((plan.server, rank) for rank in asked)
        return _Traffic((down, tuple((rank, plan.server) for rank in asked)), size)
    if overlay.neighbours is not None:
        return _Traffic((_pairs(learners, overlay.neighbours),), size)
    count = len(learners)
    if algorithm.name == "epidemic" and algorithm.options.get("mode") == "local":
        draw = stream(plan.seed, "estimate")
        fanout = overlay.degree or 0
        pairs = tuple(
            (rank, learners[other + (other >= at)])
            for at, rank in enumerate(learners)
            for other in sorted(draw.sample(range(count - 1), fanout))
        )
        notes = count * (count - 1 - fanout) if algorithm.options.get("round_end") == "notify" else 0
        return _Traffic((pairs,), size, notes * CONTROL_BYTES)
    graph = dynamic_graph(overlay, count, plan.seed, 0)
    ranks = tuple(tuple(learners[other] for other in others) for others in graph)
    questions = 2 * count if overlay.sampler is not None else 0
    return _Traffic((_pairs(learners, ranks),), size, questions * CONTROL_BYTES)


def _pairs(learners: tuple[int, ...], neighbours: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, int], ...]:
    return tuple((rank, other) for rank, others in zip(learners, neighbours, strict=True) for other in others)


def _round_s(
    plan: RunPlan,
    compute: dict[int, float],
    traffic: _Traffic,
    phases: list[NDArray[np.float64]],
) -> float:
    """How long a round takes once all are waiting for each other."""
    if len(traffic.phases) == 2:  # there, compute, and back
        ranks = [rank for _, rank in traffic.phases[0]]
        ways: list[float] = (phases[0] + phases[1]).tolist()
        return max(compute[rank] + way for rank, way in zip(ranks, ways, strict=True) if isfinite(way))
    ready: dict[tuple[int, int], float] = {
        (origin, dest): compute[origin] + way
        for (origin, dest), way in zip(traffic.phases[0], phases[0].tolist(), strict=True)
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
        self._network = expand(plan.load_topology())
        self._paths: Paths = compute_paths(self._network)

    def times(self, traffic: _Traffic) -> list[NDArray[np.float64]]:
        """By phase and message; infinite without a path."""
        return [self._of_phase(phase, traffic.size) for phase in traffic.phases]

    def _of_phase(self, pairs: tuple[tuple[int, int], ...], size: int) -> NDArray[np.float64]:
        if not pairs:
            return np.array([], dtype=np.float64)
        origin, dest = np.array(pairs).T
        paths = self._paths
        there_s = paths.latency_ms[origin, dest] / 1e3
        rtt_s = there_s + paths.latency_ms[dest, origin] / 1e3
        rate = np.minimum(self._shares(pairs, origin, dest), _FASTEST_BPS) / 8
        with np.errstate(invalid="ignore"):
            return _tcp_s(float(size), there_s, rtt_s, rate)

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


def _tcp_s(
    size: float, there_s: NDArray[np.float64], rtt_s: NDArray[np.float64], rate: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Until the last byte has arrived: the window doubles every round trip until it fills the path."""
    left = np.full(there_s.shape, size)
    taken = there_s.copy()
    window = float(_WINDOW_BYTES)
    starting = (left > window) & (window < rate * rtt_s) & np.isfinite(rtt_s)
    while starting.any():
        left[starting] -= window
        taken[starting] += rtt_s[starting]
        window *= 2
        starting &= (left > window) & (window < rate * rtt_s)
    return np.where((rate > 0) & np.isfinite(rtt_s), taken + left / np.maximum(rate, 1e-9), np.inf)
