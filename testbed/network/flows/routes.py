"""Routes of pairs of nodes: the links that they use, and their total properties.

Takes a `Network`, gives a `FlowRoute` for a pair; touches nothing. Paths are computed on first use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testbed.network.flows.settings import Tcp
from testbed.network.graph import Floats, Network
from testbed.network.paths import Paths, compute_paths

UNTHROTTLED_BYTES_S = 12.5e9
"""Rate of a flow without any limit: 100 Gbit/s, more than a host can copy."""
_LEAST_LATENCY_S = 2e-5
"""Latency that hosts add even to an ideal link."""
_BITS = 8.0


_LEAST_LEFT = 0.001
"""Least share of a link's rate that background traffic leaves, as in the packet model."""


@dataclass(frozen=True, slots=True)
class FlowRoute:
    """The paths between two nodes in both directions."""

    links: tuple[int, ...]
    """Links with a limited rate on the path there, in order."""
    back_links: tuple[int, ...]
    """Links with a limited rate on the path back."""
    latency_s: float
    return_s: float
    jitter_s: float
    loss: float
    rate_bytes_s: float

    @property
    def rtt_s(self) -> float:
        return self.latency_s + self.return_s


class FlowRoutes:
    """All routes of a network; made anew for every change. Rates are what is left for messages."""

    def __init__(self, network: Network, tcp: Tcp) -> None:
        self.network = network
        self._bytes_per_bit = tcp.goodput / _BITS
        self._segment_bytes = tcp.mss_bytes
        self._found: dict[tuple[int, int], FlowRoute | None] = {}

    @cached_property
    def capacity(self) -> Floats:
        """Bytes per second of every link; the extra last entry stands for no link."""
        rate_bps = self.network.rate_bps
        rates_bps = np.maximum(rate_bps - self.network.background_bps, rate_bps * _LEAST_LEFT)
        rates = np.minimum(rates_bps * self._bytes_per_bit, UNTHROTTLED_BYTES_S)
        return np.append(rates, UNTHROTTLED_BYTES_S)

    @cached_property
    def limit(self) -> Floats:
        """Bytes that every link's queue holds; infinite for the entry that stands for no link."""
        held = self.network.queue_ms / 1e3 * self.capacity[:-1]
        return np.append(np.minimum(held, self.network.queue_bytes), math.inf)

    @cached_property
    def _paths(self) -> Paths:
        return compute_paths(self.network)

    def route(self, origin: int, dest: int) -> FlowRoute | None:
        """The route of a pair; None unless both directions carry packets, since TCP needs both."""
        pair = origin, dest
        if pair not in self._found:
            self._found[pair] = self._look_up(origin, dest)
        return self._found[pair]

    def _throttling(self, links: list[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(link for link in links if math.isfinite(self.network.rate_bps[link])))

    def _passed_on_s(self, links: list[int]) -> float:
        """Time to serialize a segment on all links but the slowest, since each forwards whole segments.

        On the slowest link that time is part of the flow's rate already.
        """
        each_s = self._segment_bytes / self.capacity[links]
        return float(each_s.sum() - each_s.max())

    def _look_up(self, origin: int, dest: int) -> FlowRoute | None:
        paths = self._paths
        for one, other in ((origin, dest), (dest, origin)):
            if paths.hops[one, other] <= 0 or paths.loss[one, other] >= 1.0:
                return None
        links = paths.links(origin, dest)
        return FlowRoute(
            links=self._throttling(links),
            back_links=self._throttling(paths.links(dest, origin)),
            latency_s=max(float(paths.latency_ms[origin, dest]) / 1e3, _LEAST_LATENCY_S) + self._passed_on_s(links),
            return_s=max(float(paths.latency_ms[dest, origin]) / 1e3, _LEAST_LATENCY_S),
            jitter_s=float(paths.jitter_ms[origin, dest]) / 1e3,
            loss=float(paths.loss[origin, dest]),
            rate_bytes_s=float(self.capacity[links].min()),
        )
