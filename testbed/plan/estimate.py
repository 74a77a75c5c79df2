"""What a run will cost: bytes and emulated time of a round, by node and in all.

Takes a `RunPlan`, gives an `Estimate`; touches nothing. Where a few rounds are not too many messages they are rehearsed
over the network's model. Otherwise it is a sum on the back of an envelope: every message of a round is sent at once
and shares its links evenly, TCP starts slowly each time, and losses hold its rate down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from statistics import median

import numpy as np
from numpy.typing import NDArray

from testbed.network.flows import Tcp
from testbed.network.flows.bandwidth_sharing import TWO_WAYS
from testbed.network.graph import expand
from testbed.network.paths import Paths, compute_paths
from testbed.plan.model import RunPlan
from testbed.plan.overlay_graph import dynamic_graph
from testbed.plan.rehearse import Messages, Peers, Rehearsal, Served, rehearse, window_of
from testbed.plan.shares import part_of
from testbed.seeds import stream

HEADER_BYTES = 60
"""Metadata of a message, about."""
CONTROL_BYTES = 40
_MESSAGES = 8_000
"""A rehearsal of no more takes about a second; it has no more rounds than are good for something."""
_MOST_MESSAGES = 16_000
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 12
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
    peak_bytes_s: float | None = None
    """Of all nodes together, over the busiest window (`rehearse.window_of`)."""
    peak_is_bound: bool = False
    """It was not rehearsed: they cannot send more than that."""
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
    return (training.epochs or 1) * max(1, int(samples // training.batch))


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
    transfers = _Transfers(plan)
    phases = transfers.times(traffic)
    times = np.concatenate([np.array([], dtype=np.float64), *phases])
    finite = times[np.isfinite(times)]
    window_s = window_of(transfers.latency_s(pairs))
    rehearsal = _rehearsal(plan, size, compute, len(pairs), window_s) if finite.size == times.size > 0 else None
    if rehearsal is not None:
        finite = np.array(rehearsal.transfers_s)
        round_s = rehearsal.steady_s
    else:
        round_s = _round_s(plan, compute, traffic, phases) if finite.size else slowest
    total_s = None
    if rounds is not None:
        total_s = rounds * round_s if rehearsal is None else rehearsal.total_s(rounds)
    if rehearsal is not None:
        peak_bytes_s = rehearsal.peak_bytes_s
    else:
        peak_bytes_s = min(transfers.access_bytes_s(pairs), in_all / window_s)
    done: float | None = rounds
    if (limit := plan.experiment.stop.time_s) is not None and (total_s is None or limit < total_s):
        total_s = limit
        done = limit / round_s if round_s else None
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
        peak_bytes_s=peak_bytes_s,
        peak_is_bound=rehearsal is None,
        unreachable=int(np.isinf(times).sum()),
    )


def _rehearsal(
    plan: RunPlan, size: int, compute: Mapping[int, float], messages: int, window_s: float
) -> Rehearsal | None:
    """The first rounds, unless they are too many messages or go on for ever."""
    rounds = max(_LEAST_ROUNDS, min(_MOST_ROUNDS, _MESSAGES // messages))
    if plan.experiment.stop.rounds is not None:
        rounds = min(rounds, plan.experiment.stop.rounds)
    if rounds * messages > _MOST_MESSAGES:
        return None
    evaluation = plan.experiment.evaluation
    if evaluation.mode == "inline":
        # A forward pass is a third of a step, and the rounds between evaluations share it.
        steps = evaluation.samples / plan.experiment.training.batch / 3 / evaluation.every
        pace = {node.rank: node.pace[0][1] for node in plan.nodes}
        compute = {rank: took + steps * plan.ms_per_step / 1e3 * pace[rank] for rank, took in compute.items()}
    return rehearse(plan, _parts(plan, size), compute, rounds, window_s)


def _parts(plan: RunPlan, size: int) -> Peers | Served:
    learners, overlay, options = plan.learners, plan.overlay, plan.experiment.algorithm.options
    if plan.server is not None and overlay.kind == "star":
        wanted, asked = _clients(plan)

        def draw(round_: int) -> tuple[int, ...]:
            return tuple(sorted(stream(plan.seed, "estimate", str(round_)).sample(learners, asked)))

        deadline = options.get("deadline")
        return Served(
            plan.server,
            draw,
            wanted,
            size,
            deadline_s=float(deadline) if isinstance(deadline, int | float) else None,
            at_once=options.get("mode") == "async",
        )
    if overlay.neighbours is not None:
        always = dict(zip(learners, overlay.neighbours, strict=True))
        return Peers(lambda _: always, size)
    if plan.experiment.algorithm.name == "epidemic" and options.get("mode") == "local":
        timeout = options.get("timeout")
        ends = options.get("round_end")
        return Peers(
            lru_cache(maxsize=None)(lambda round_: _drawn(plan, round_)),
            size,
            notes=ends == "notify",
            wait_s=float(timeout) if ends == "timeout" and isinstance(timeout, int | float) else None,
            control_size=CONTROL_BYTES,
        )

    def graph(round_: int) -> Messages:
        drawn = dynamic_graph(overlay, len(learners), plan.seed, round_)
        return {rank: tuple(learners[other] for other in others) for rank, others in zip(learners, drawn, strict=True)}

    return Peers(lru_cache(maxsize=None)(graph), size, sampler=overlay.sampler, control_size=CONTROL_BYTES)


def _clients(plan: RunPlan) -> tuple[int, int]:
    """How many answers the server waits for in a round, and how many clients it asks."""
    options, count = plan.experiment.algorithm.options, len(plan.learners)

    def part(whole: int, factor: object) -> int:
        return part_of(whole, factor) if isinstance(factor, int | float) else whole

    wanted = part(count, options.get("participation"))
    return wanted, min(count, part(wanted, options.get("over_selection")))


def _drawn(plan: RunPlan, round_: int) -> dict[int, tuple[int, ...]]:
    """Every learner's own recipients, such as epidemic learning's."""
    fanout = plan.overlay.degree or 0
    found = {}
    for rank in plan.learners:
        others = [other for other in plan.learners if other != rank]
        found[rank] = tuple(sorted(stream(plan.seed, "estimate", str(round_), str(rank)).sample(others, fanout)))
    return found


def _traffic(plan: RunPlan, size: int) -> _Traffic:
    learners, overlay = plan.learners, plan.overlay
    algorithm = plan.experiment.algorithm
    if plan.server is not None and overlay.kind == "star":
        _, count = _clients(plan)
        asked = sorted(stream(plan.seed, "estimate", "0").sample(learners, count))
        down = tuple((plan.server, rank) for rank in asked)
        return _Traffic((down, tuple((rank, plan.server) for rank in asked)), size)
    if overlay.neighbours is not None:
        return _Traffic((_pairs(learners, overlay.neighbours),), size)
    count = len(learners)
    if algorithm.name == "epidemic" and algorithm.options.get("mode") == "local":
        drawn = _drawn(plan, 0)
        pairs = _pairs(learners, tuple(drawn[rank] for rank in learners))
        notes = count * (count - 1) - len(pairs) if algorithm.options.get("round_end") == "notify" else 0
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

    def access_bytes_s(self, pairs: Sequence[tuple[int, int]]) -> float:
        """What all senders together can send at most: none sends more than its best path carries."""
        best: dict[int, float] = {}
        for origin, dest in pairs:
            best[origin] = max(best.get(origin, 0.0), float(self._paths.bandwidth_bps[origin, dest]))
        return sum(min(rate, _FASTEST_BPS) for rate in best.values()) / 8

    def latency_s(self, pairs: Sequence[tuple[int, int]]) -> float:
        """Of the pair in the middle, of those that reach each other; 0 where there is none."""
        latency_ms = self._paths.latency_ms[tuple(np.array(pairs, dtype=np.intp).reshape(-1, 2).T)]
        finite = latency_ms[np.isfinite(latency_ms)]
        return float(np.median(finite)) / 1000 if finite.size else 0.0

    def _of_phase(self, pairs: tuple[tuple[int, int], ...], size: int) -> NDArray[np.float64]:
        if not pairs:
            return np.array([], dtype=np.float64)
        origin, dest = np.array(pairs).T
        paths = self._paths
        there_s = paths.latency_ms[origin, dest] / 1e3
        rtt_s = there_s + paths.latency_ms[dest, origin] / 1e3
        rate = np.minimum(self._shares(pairs, origin, dest), _FASTEST_BPS) / 8 * Tcp().goodput
        sent = set(pairs) if size > _WINDOW_BYTES else set()
        # where others' data meets the acknowledgements
        rate = rate / np.array([1.0 + TWO_WAYS * (pair[::-1] in sent) for pair in pairs])
        with np.errstate(invalid="ignore"):
            rate = np.minimum(rate, _held_down_bytes_s(float(size), rtt_s, paths.loss[origin, dest]))
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


def _held_down_bytes_s(size: float, rtt_s: NDArray[np.float64], loss: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where losses come before the end of a message: what the windows of cubic, or of reno, are on average."""
    mss = float(Tcp().mss_bytes)
    some = np.maximum(loss, 1e-12)
    windows = np.maximum(1.22 * some**-0.5, 1.17 * (np.where(np.isfinite(rtt_s), rtt_s, 0.0) / some) ** 0.75)
    held: NDArray[np.float64] = np.where(size * loss > mss, windows * mss / np.maximum(rtt_s, 1e-6), np.inf)
    return held


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
