"""Chooses the pairs of nodes to measure, and what the topology asks of them.

Takes a `Network`, gives `Pair`s and the flows that share a bottleneck; touches nothing. Pairs with extreme properties
come first; the rest of the requested number is drawn from the seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from testbed.network.findings import sample_sources
from testbed.network.graph import Flags, Network
from testbed.network.paths import Paths, compute_paths
from testbed.seeds import stream

_MOST_SOURCES = 256
_MOST_DESTS = 64
"""Destinations among which a shared bottleneck is looked for."""
SLOWEST_BPS, FASTEST_BPS = 1e6, 500e6
"""Rates that are promised and judged."""
_ALIKE = 1.25
"""Flows whose round trips differ by no more than this factor share a bottleneck fairly."""
_FLOWS = 4
_MS = 1e-3


@dataclass(frozen=True, slots=True)
class Hop:
    """One link of a path."""

    link: int
    latency_s: float
    jitter_s: float
    loss: float
    rate_bps: float
    free_bps: float
    """What background traffic leaves of the rate."""
    queue_s: float
    """The longest time that a packet may wait in its queue."""


@dataclass(frozen=True, slots=True)
class OneWayPath:
    """The links from one node to another."""

    hops: tuple[Hop, ...]

    @property
    def latency_s(self) -> float:
        return sum(hop.latency_s for hop in self.hops)

    @property
    def jitter_s(self) -> float:
        return math.sqrt(sum(hop.jitter_s**2 for hop in self.hops))

    @property
    def loss(self) -> float:
        return 1.0 - math.prod(1.0 - hop.loss for hop in self.hops)

    @property
    def rate_bps(self) -> float:
        """Rate of the slowest link."""
        return min(hop.free_bps for hop in self.hops)

    @property
    def links(self) -> frozenset[int]:
        return frozenset(hop.link for hop in self.hops)

    @property
    def bottleneck(self) -> int:
        """The link that sets the rate; of several, the first."""
        return min(self.hops, key=lambda hop: hop.free_bps).link

    def sending_s(self, size_bytes: int) -> float:
        """Serialization delay of a packet, summed over all links."""
        return sum(size_bytes * 8 / hop.rate_bps for hop in self.hops)

    def flooded(self, offered_bps: float) -> tuple[float, float, float]:
        """Effect of an offered rate: rate that arrives, queueing delay, and time until the queues are full.

        Losses before a link reduce its load; losses after it do not.
        """
        rate, waiting_s, filling_s = offered_bps, 0.0, 0.0
        for hop in self.hops:
            if rate > hop.free_bps:
                waiting_s += hop.queue_s
                filling_s += hop.queue_s * hop.free_bps / (rate - hop.free_bps)
                rate = hop.free_bps
            rate *= 1.0 - hop.loss
        return rate, waiting_s, filling_s


@dataclass(frozen=True, slots=True)
class Pair:
    """Two nodes and the paths in both directions."""

    origin: int
    dest: int
    name: str
    why: str
    there: OneWayPath
    back: OneWayPath

    @property
    def links(self) -> frozenset[int]:
        return self.there.links | self.back.links

    @property
    def round_trip_s(self) -> float:
        return self.there.latency_s + self.back.latency_s

    def probe_round_trip_s(self, size_bytes: int) -> float:
        """Round trip of a packet on an idle network, serialization included."""
        return self.round_trip_s + self.there.sending_s(size_bytes) + self.back.sending_s(size_bytes)

    @property
    def jitter_s(self) -> float:
        """Jitter of the direction that has more."""
        return max(self.there.jitter_s, self.back.jitter_s)


@dataclass(frozen=True, slots=True)
class SharedBottleneck:
    """Flows that meet at one link, the bottleneck of each."""

    flows: tuple[Pair, ...]
    """All run at once; a pair may occur more than once."""
    rate_bps: float

    @property
    def links(self) -> frozenset[int]:
        return frozenset[int]().union(*(flow.links for flow in self.flows))


def choose_pairs(network: Network, count: int, seed: int, among: frozenset[int] | None = None) -> list[Pair]:
    """Chooses extreme pairs, then others; each pair of nodes once, and only pairs with paths in both directions.

    `among`: ranks of the nodes to choose from; None for all.
    """
    paths, both = _sampled(network)
    if among is not None:
        both[:, [rank not in among for rank in range(network.node_count)]] = False
        both[[int(source) not in among for source in paths.sources], :] = False
    chosen: dict[tuple[int, int], Pair] = {}
    for why, row, dest in _wanted(paths, both, seed):
        if len(chosen) >= count:
            break
        origin = int(paths.sources[row])
        key = (min(origin, dest), max(origin, dest))
        if key not in chosen:
            chosen[key] = _pair(paths, origin, dest, why)
    return list(chosen.values())


def find_shared(network: Network, seed: int) -> SharedBottleneck | None:
    """Finds four loss-free flows over one bottleneck with similar round trips, from as many origins as possible."""
    paths, both = _sampled(network)
    dests = stream(seed, "verify", "shared").sample(range(network.node_count), min(network.node_count, _MOST_DESTS))
    groups: dict[int, list[Pair]] = {}
    for dest in sorted(dests):
        suits = both[:, dest] & (paths.loss[:, dest] == 0) & (paths.jitter_ms[:, dest] == 0)
        suits &= (paths.bandwidth_bps[:, dest] >= SLOWEST_BPS) & (paths.bandwidth_bps[:, dest] <= FASTEST_BPS)
        for row in np.flatnonzero(suits).tolist()[:_MOST_DESTS]:
            if dest not in paths.sources:
                continue
            pair = _pair(paths, int(paths.sources[row]), dest, "shared bottleneck")
            if pair.back.loss == 0:
                slowest = [hop for hop in pair.there.hops if hop.free_bps == pair.there.rate_bps]
                groups.setdefault(slowest[-1].link, []).append(pair)
    best = max((alike for group in groups.values() for alike in _alike(group)), key=_worth, default=None)
    if best is None:
        return None
    flows = tuple(best[number % len(best)] for number in range(_FLOWS))
    return SharedBottleneck(flows, best[0].there.rate_bps)


def _worth(pairs: list[Pair]) -> tuple[int, float, int]:
    """Prefers at least two origins, then a short round trip, where TCP flows converge soon, then more origins."""
    return min(len(pairs), 2), -round(max(pair.round_trip_s for pair in pairs), 4), len(pairs)


def _alike(group: list[Pair]) -> Iterator[list[Pair]]:
    by_origin = {pair.origin: pair for pair in sorted(group, key=lambda pair: -pair.round_trip_s)}
    ordered = sorted(by_origin.values(), key=lambda pair: (pair.round_trip_s, pair.origin))
    for start, first in enumerate(ordered):
        near = [pair for pair in ordered[start : start + _FLOWS] if pair.round_trip_s <= first.round_trip_s * _ALIKE]
        yield near


def _sampled(network: Network) -> tuple[Paths, Flags]:
    """Paths from sampled sources, and whether each source and destination reach each other."""
    paths = compute_paths(network, sample_sources(network, _MOST_SOURCES))
    both = np.zeros(paths.reachable.shape, dtype=np.bool_)
    among = paths.reachable[:, paths.sources]
    both[:, paths.sources] = among & among.T
    return paths, both


def _wanted(paths: Paths, both: Flags, seed: int) -> Iterator[tuple[str, int, int]]:
    """Yields (why, row, dest), most important first."""
    found = np.argwhere(both)
    if not len(found):
        return
    rows, dests = found.T
    latency, jitter = paths.latency_ms[rows, dests], paths.jitter_ms[rows, dests]
    loss, rate = paths.loss[rows, dests], paths.bandwidth_bps[rows, dests]
    extremes = [
        ("shortest", latency, True),
        ("longest", -latency, True),
        ("slowest", rate, np.isfinite(rate)),
        ("most loss", -loss, loss > 0),
        ("most jitter", -jitter, jitter > 0),
        ("fastest", -rate, rate <= FASTEST_BPS),
        ("least loss", loss, loss > 0),
        ("least jitter", jitter, jitter > 0),
        ("longest without loss", -latency, loss == 0),
        ("slowest without loss", rate, (loss == 0) & np.isfinite(rate)),
    ]
    for why, keys, suits in extremes:
        where = np.flatnonzero(np.broadcast_to(suits, keys.shape))
        if where.size:
            best = int(where[np.argmin(keys[where])])
            yield why, int(rows[best]), int(dests[best])
    order = list(range(len(found)))
    stream(seed, "verify", "pairs").shuffle(order)
    for place in order:
        yield "drawn", int(rows[place]), int(dests[place])


def _pair(paths: Paths, origin: int, dest: int, why: str) -> Pair:
    names = paths.network.names
    name = f"{names[origin]} → {names[dest]}"
    return Pair(origin, dest, name, why, _way(paths, origin, dest), _way(paths, dest, origin))


def _way(paths: Paths, origin: int, dest: int) -> OneWayPath:
    return OneWayPath(tuple(_hop(paths.network, link) for link in paths.links(origin, dest)))


def _hop(network: Network, link: int) -> Hop:
    rate = float(network.rate_bps[link])
    return Hop(
        link=link,
        latency_s=float(network.latency_ms[link]) * _MS,
        jitter_s=float(network.jitter_ms[link]) * _MS,
        loss=float(network.loss[link]),
        rate_bps=rate,
        free_bps=rate - float(network.background_bps[link]) if math.isfinite(rate) else rate,
        queue_s=min(float(network.queue_ms[link]) * _MS, float(network.queue_bytes[link]) * 8 / rate),
    )
