"""Sizes the measurements: how many probes a pair needs, how long they take, and what may run in parallel.

Takes pairs, gives numbers, seconds and waves; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from testbed.verify.pairs import FASTEST_BPS, SLOWEST_BPS, OneWayPath, Pair

_Job = TypeVar("_Job")

LOSS_PROBE_BYTES = 64
LARGEST_PACKET_BYTES = 1500
PACKETS_PER_S = 18_000
"""Single packets that a fabric carries without being late."""
_MOST_PROBES_PER_S = 9_000
_TCP_AT_ONCE_BPS = 500e6
_TCP_AT_ONCE = 4
_PROBES_SHARE = 0.25
"""Share of a link's rate that probes use: they must not fill its queue."""
_UNNOTICED = 0.1
"""Share of a link's rate that does not disturb other measurements."""
_FEWEST_IN_QUEUE = 20
"""Packets that a queue must hold, so that its plateau is measured finely enough."""
_SMALLEST_PACKET_BYTES = 100
_OVERLOAD = 2.0
_FASTEST_FILLED_BPS = 1e9
_LONGEST_FILLED_S = 0.3
"""TCP takes too long to fill a longer queue."""
PING_GAP_S = 0.02
MARGIN_S = 0.4
_PATIENCE_S = 3.0


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured for certainty."""

    echoes: int = 100
    jitter_probes: int = 2_000
    drops: int = 500
    """Expected number of drops."""
    affordable_loss: float = 0.005
    """Below this loss, that many drops would take too long."""
    few_probes: int = 20_000
    """Probes sent on such paths."""
    fewest_probes: int = 2_000
    told_tcp: int = 5
    """On how many pairs TCP is measured though they are lossy or faster than the promised rates."""
    fast_queues: int = 5
    """How many queues are filled by TCP because a flood would be too much for this machine."""
    iperf_pairs: int = 1
    """On how many pairs without loss, and on as many with loss."""
    flood_s: float = 1.0
    """Upper bound: a fast flood shows enough earlier."""
    flood_packets: int = 5_000
    shared_s: float = 20.0
    shared_warm_s: float = 5.0


THOROUGH = Effort(affordable_loss=0.0, told_tcp=1_000, fast_queues=1_000, iperf_pairs=1_000)


@dataclass(frozen=True, slots=True)
class EchoNeed:
    """Round-trip probes."""

    count: int
    least_gap_s: float
    most_gap_s: float
    patience_s: float

    @property
    def seconds(self) -> float:
        return self.count * (self.least_gap_s + self.most_gap_s) / 2 + self.patience_s


@dataclass(frozen=True, slots=True)
class StreamNeed:
    """A stream of datagrams."""

    count: int
    per_s: float
    size_bytes: int
    settling_s: float
    """From the first datagram until the queues are as full as they get."""
    late_s: float
    """How long the last datagram may take."""
    patience_s: float = 0.0
    """How much longer to wait where all should arrive; on a correct network this takes no time."""

    @property
    def seconds(self) -> float:
        return self.count / self.per_s + self.late_s

    @property
    def load(self) -> float:
        """Share of what the fabric carries."""
        return self.per_s / PACKETS_PER_S


@dataclass(frozen=True, slots=True)
class TcpNeed:
    """A TCP flow at full speed."""

    warm_s: float
    seconds: float
    load: float


def echoes(pair: Pair, effort: Effort) -> EchoNeed:
    """Echo probes of a pair; with jitter, so far apart that none catches up with another."""
    jitter_s = pair.jitter_s
    patience_s = 2 * pair.round_trip_s + 10 * jitter_s + MARGIN_S
    if not jitter_s:
        return EchoNeed(effort.echoes, 0.01, 0.03, patience_s)
    return EchoNeed(effort.jitter_probes, 10 * jitter_s, 12 * jitter_s, patience_s)


def losses(way: OneWayPath, effort: Effort) -> StreamNeed | None:
    """Enough datagrams for the intended number of drops; None where everything is lost."""
    loss = way.loss
    if loss >= 1.0:
        return None
    count = effort.fewest_probes
    if loss:
        enough = math.ceil(effort.drops / loss)
        count = max(count, enough if loss >= effort.affordable_loss else min(enough, effort.few_probes))
    per_s = min(_MOST_PROBES_PER_S, _PROBES_SHARE * way.rate_bps / 8 / LOSS_PROBE_BYTES)
    late_s = 2 * way.latency_s + 10 * way.jitter_s + MARGIN_S
    return StreamNeed(count, per_s, LOSS_PROBE_BYTES, 0.0, late_s, 0.0 if loss else _PATIENCE_S)


def links_for_probes(pair: Pair) -> frozenset[int]:
    """Links that loss probes cannot share; on others even all probes that a fabric carries go unnoticed."""
    most_bps = PACKETS_PER_S * LOSS_PROBE_BYTES * 8
    hops = (*pair.there.hops, *pair.back.hops)
    return frozenset(hop.link for hop in hops if hop.free_bps * _UNNOTICED < most_bps)


def flood(way: OneWayPath, effort: Effort) -> StreamNeed | None:
    """Twice the rate until well after all queues are full; None where this machine cannot send that much."""
    rate = way.rate_bps
    queue_s = min((hop.queue_s for hop in way.hops if hop.free_bps == rate), default=math.inf)
    if not math.isfinite(rate) or not math.isfinite(queue_s):
        return None
    size = int(min(LARGEST_PACKET_BYTES, max(_SMALLEST_PACKET_BYTES, queue_s * rate / 8 / _FEWEST_IN_QUEUE)))
    per_s = _OVERLOAD * rate / 8 / size
    if per_s > PACKETS_PER_S:
        return None
    _, waiting_s, filling_s = way.flooded(_OVERLOAD * rate)
    settling_s = way.latency_s + waiting_s + 1.2 * filling_s + 0.2
    late_s = 2 * way.latency_s + 10 * way.jitter_s + waiting_s + MARGIN_S
    plateau_s = min(effort.flood_s, effort.flood_packets / per_s)
    return StreamNeed(math.ceil((settling_s + plateau_s) * per_s), per_s, size, settling_s, late_s)


def filling(pair: Pair) -> TcpNeed | None:
    """TCP flows that keep full a queue too fast for a flood; None where they could not."""
    way = pair.there
    bottleneck = next((hop for hop in way.hops if hop.link == way.bottleneck), None)
    if bottleneck is None or not math.isfinite(bottleneck.queue_s) or way.rate_bps > _FASTEST_FILLED_BPS:
        return None
    if way.loss or way.jitter_s or pair.back.loss or bottleneck.queue_s > _LONGEST_FILLED_S:
        return None
    round_trip_s = pair.round_trip_s + bottleneck.queue_s
    return TcpNeed(warm_s := 0.5 + 15 * round_trip_s, warm_s + 1.0 + 10 * round_trip_s + MARGIN_S, 1.0)


def ping_seconds(pair: Pair, effort: Effort) -> float:
    return effort.echoes * PING_GAP_S + 2 * pair.round_trip_s + 10 * pair.jitter_s + MARGIN_S


def tcp(pair: Pair) -> TcpNeed | None:
    """A TCP flow, counted after its window has opened; None where no link limits the pair."""
    rate = pair.there.rate_bps
    if not math.isfinite(rate):
        return None
    warm_s = 1.5 + 20 * pair.round_trip_s
    counted_s = 1.5 + 5 * pair.round_trip_s
    load = max(0.0 if pair.there.loss else rate / _TCP_AT_ONCE_BPS, 1 / _TCP_AT_ONCE)
    return TcpNeed(warm_s, warm_s + counted_s + MARGIN_S, load)


def is_gated(rate_bps: float) -> bool:
    """Whether the rate is in the promised range, and so judged."""
    return SLOWEST_BPS <= rate_bps <= FASTEST_BPS


@dataclass(frozen=True, slots=True)
class Task(Generic[_Job]):
    """Something to measure, and what it takes."""

    job: _Job
    links: frozenset[int]
    seconds: float
    load: float
    """Share of what this machine can do at once."""


def waves(works: Iterable[Task[_Job]]) -> list[list[Task[_Job]]]:
    """Groups work that may run in parallel: no shared link, total load at most 1; longest first."""
    found: list[list[Task[_Job]]] = []
    for work in sorted(works, key=lambda work: -work.seconds):
        for wave in found:
            fits = sum(other.load for other in wave) + work.load <= 1.0
            if fits and not any(work.links & other.links for other in wave):
                wave.append(work)
                break
        else:
            found.append([work])
    return found


def seconds_of(wanted: Iterable[list[Task[_Job]]]) -> float:
    return sum(max(work.seconds for work in wave) for wave in wanted)
