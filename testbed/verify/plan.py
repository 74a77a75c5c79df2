"""What is measured of a network, and how long it takes.

Takes pairs, a shared bottleneck and an effort, gives work by kind and seconds; touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from testbed.verify.pairs import FASTEST_BPS, Hop, Pair, SharedBottleneck
from testbed.verify.sizing import (
    MARGIN_S,
    Effort,
    StreamNeed,
    Task,
    echoes,
    filling,
    flood,
    is_gated,
    links_for_probes,
    losses,
    ping_seconds,
    seconds_of,
    tcp,
    waves,
)
from testbed.verify.tools import NO_TOOLS, Tools

_Job = TypeVar("_Job")
_START_S = 1.0
"""About the time to bring up a network; each node adds `_NODE_S`."""
_NODE_S = 0.03
_HEADSTART_S = 0.3
"""Delay before every wave."""
CHANGE_S = 3.0
"""Time to change a link and to change it back."""
_CHANGE_JITTER_S = 0.003
"""Upper bound of jitter: with more, the instant of a change could not be seen."""
_AGAIN = 1.5
"""Average number of times that shares are measured."""


@dataclass(frozen=True, slots=True)
class Change:
    """A link whose latency is changed while probes cross it."""

    pair: Pair
    before_s: float
    """How long probes take to the link."""
    hop: Hop
    origin: str
    dest: str
    """Its ends, by name."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    pairs: Sequence[Pair]
    shared: SharedBottleneck | None
    effort: Effort
    change: Change | None = None
    tools: Tools = NO_TOOLS
    """Installed programs to measure with as well."""

    @property
    def ranks(self) -> list[int]:
        """The nodes that are needed."""
        pairs = (*self.pairs, *(self.shared.flows if self.shared else ()))
        return sorted({rank for pair in pairs for rank in (pair.origin, pair.dest)})

    @property
    def seconds(self) -> float:
        """Approximate duration."""
        shared_s = self.effort.shared_warm_s + self.effort.shared_s + MARGIN_S
        return (
            2 * (_START_S + _NODE_S * len(self.ranks))
            + max((echoes(pair, self.effort).seconds for pair in self.pairs), default=0.0)
            + (max((ping_seconds(pair, self.effort) for pair in self.pairs), default=0.0) if self.tools.ping else 0.0)
            + _seconds(waves(loss_work(self.pairs, self.effort)))
            + (CHANGE_S if self.change else 0.0)
            + _seconds(waves(flood_work(self.pairs, self.effort)))
            + _seconds(waves(filling_work(self.pairs, self.effort)))
            + _seconds(waves(tcp_work(self.pairs, self.effort)))
            + (_seconds(waves(iperf_work(self.pairs, self.effort))) if self.tools.iperf3 else 0.0)
            + (_AGAIN * shared_s if self.shared else 0.0)
        )

    @property
    def with_few_drops(self) -> int:
        """Number of pairs whose loss is so low that this effort sees fewer drops than intended."""
        return sum(0 < pair.there.loss < self.effort.affordable_loss for pair in self.pairs)

    @property
    def thorough_s(self) -> float:
        """Approximate duration with all intended drops."""
        return replace(self, effort=replace(self.effort, affordable_loss=0.0)).seconds


def _seconds(wanted: list[list[Task[_Job]]]) -> float:
    return _HEADSTART_S * len(wanted) + seconds_of(wanted)


def loss_work(pairs: Sequence[Pair], effort: Effort) -> list[Task[tuple[Pair, StreamNeed]]]:
    needs = [(pair, losses(pair.there, effort)) for pair in pairs]
    return [
        Task((pair, need), links_for_probes(pair), need.seconds, need.load) for pair, need in needs if need is not None
    ]


def flood_work(pairs: Sequence[Pair], effort: Effort) -> list[Task[tuple[Pair, StreamNeed]]]:
    needs = [(pair, flood(pair.there, effort)) for pair in pairs]
    return [
        Task((pair, need), pair.links, need.seconds, min(1.0, need.load)) for pair, need in needs if need is not None
    ]


def filling_work(pairs: Sequence[Pair], effort: Effort) -> list[Task[Pair]]:
    """Queues of links that are too fast for a flood; TCP fills them."""
    found: list[Task[Pair]] = []
    for pair in pairs:
        need = filling(pair) if flood(pair.there, effort) is None else None
        if need is not None and len(found) < effort.fast_queues:
            found.append(Task(pair, pair.links, need.seconds, 1.0))
    return found


def tcp_work(pairs: Sequence[Pair], effort: Effort) -> list[Task[Pair]]:
    """All pairs whose rate is judged, and some of the others."""
    found: list[Task[Pair]] = []
    told = 0
    for pair in pairs:
        need = tcp(pair)
        if need is None or pair.there.loss >= 1:
            continue
        is_told = pair.there.loss > 0 or not is_gated(pair.there.rate_bps)
        told += is_told
        if not is_told or told <= effort.told_tcp:
            found.append(Task(pair, pair.links, need.seconds, min(1.0, need.load)))
    return found


def iperf_work(pairs: Sequence[Pair], effort: Effort) -> list[Task[Pair]]:
    """Some pairs without loss, for TCP, and some with loss, for UDP; one at a time."""
    clean = [work for work in tcp_work(pairs, effort) if not work.job.there.loss]
    clean = [work for work in clean if work.job.there.rate_bps <= FASTEST_BPS]
    lossy = [Task(pair, pair.links, need.seconds, 1.0) for pair, need in _floods(pairs, effort) if pair.there.loss]
    return [
        *(Task(work.job, work.links, work.seconds, 1.0) for work in clean[: effort.iperf_pairs]),
        *lossy[: effort.iperf_pairs],
    ]


def _floods(pairs: Sequence[Pair], effort: Effort) -> list[tuple[Pair, StreamNeed]]:
    return [work.job for work in flood_work(pairs, effort)]


def choose_change(pairs: Sequence[Pair], ends: Mapping[int, tuple[str, str]]) -> Change | None:
    """Chooses a link of the pair with the least jitter and loss, among the links that `ends` names."""
    suits = [
        (pair.there.jitter_s, pair.there.loss, place, number)
        for place, pair in enumerate(pairs)
        for number, hop in enumerate(pair.there.hops)
        if hop.link in ends and pair.there.jitter_s <= _CHANGE_JITTER_S and pair.there.loss < 0.5
    ]
    if not suits:
        return None
    _, _, place, number = min(suits)
    hops = pairs[place].there.hops
    return Change(pairs[place], sum(hop.latency_s for hop in hops[:number]), hops[number], *ends[hops[number].link])
