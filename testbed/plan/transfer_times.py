"""How long messages take, without a rehearsal: in the network as it is at the start.

Takes a `RunPlan` and messages, gives times; touches nothing. Messages of a phase are sent at once and share their links
evenly. TCP starts slowly each time, and losses limit its rate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from testbed.network.flows import Tcp
from testbed.network.flows.bandwidth_sharing import TWO_WAYS
from testbed.network.paths import Paths, compute_paths
from testbed.plan.model import RunPlan
from testbed.plan.round_messages import Phase, Traffic

_WINDOW_BYTES = 10 * 1448
_MOST_PAIRS = 20_000
"""The most messages whose routes are followed link by link; with more, only a node's own messages share its path."""
_FASTEST_BPS = 100e9


class TransferTimes:
    """How long messages take in the network as it is at the start."""

    def __init__(self, plan: RunPlan) -> None:
        self._network = plan.expanded_network()
        self._paths: Paths = compute_paths(self._network)

    def times(self, traffic: Traffic) -> list[NDArray[np.float64]]:
        """By phase and message; infinite without a path."""
        return [self._of_phase(phase) for phase in traffic.phases]

    def uplink_bytes_s(self, pairs: Sequence[tuple[int, int]]) -> dict[int, float]:
        """By sender: the rate of its best path."""
        return self._best_bytes_s(pairs, [origin for origin, _ in pairs])

    def downlink_bytes_s(self, pairs: Sequence[tuple[int, int]]) -> dict[int, float]:
        """By recipient: the rate of the best path to it."""
        return self._best_bytes_s(pairs, [dest for _, dest in pairs])

    def _best_bytes_s(self, pairs: Sequence[tuple[int, int]], ranks: Sequence[int]) -> dict[int, float]:
        best: dict[int, float] = {}
        for pair, rank in zip(pairs, ranks, strict=True):
            best[rank] = max(best.get(rank, 0.0), float(self._paths.bandwidth_bps[pair]))
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
