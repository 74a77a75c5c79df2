"""Measurements in an otherwise idle network: round trips, jitter, losses, and the fabric's own counters.

Takes a plan and a running network, gives rows. All packets in that network are probes, so the fabric's counters must
match them exactly.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from testbed.engines.fabric.accounts import Second
from testbed.engines.fabric.reports import LINKS
from testbed.verify import judge
from testbed.verify.judge import Row, Verdict
from testbed.verify.network import Running
from testbed.verify.pairs import Pair
from testbed.verify.plan import Plan, loss_work
from testbed.verify.probe_protocol import Echoed, Responded
from testbed.verify.probes import PROBE_BYTES
from testbed.verify.sizing import Effort, echoes, waves
from testbed.verify.traffic import echo_all, stream_all

_SECOND_LOOK_S = 45.0
Ends = tuple[int, int]
"""Ranks of origin and destination."""


@dataclass
class Known:
    """What the nodes counted of the packets of each ordered pair."""

    sent: Counter[Ends] = field(default_factory=Counter)
    missing: Counter[Ends] = field(default_factory=Counter)
    idle_s: dict[Ends, float] = field(default_factory=dict)
    """Median one-way delay in the idle network."""

    def add(self, origin: int, dest: int, sent: int, arrived: int) -> None:
        self.sent[origin, dest] += sent
        self.missing[origin, dest] += sent - arrived

    def add_echo(self, pair: Pair, responded: Responded, echoed: Echoed) -> None:
        self.add(pair.origin, pair.dest, echoed.sent, responded.probes)
        self.add(pair.dest, pair.origin, responded.probes, len(echoed.round_trips_s))
        if echoed.there_s:
            self.idle_s[pair.origin, pair.dest] = statistics.median(echoed.there_s)


def round_trips(plan: Plan, running: Running, known: Known) -> list[Row]:
    """A pair out of bounds is measured once more where that is quick, and the second result counts.

    The host may have been suspended or busy during the first.
    """
    effort = plan.effort
    found = dict(zip([pair.name for pair in plan.pairs], _echo(plan.pairs, effort, running, known), strict=True))
    again = [
        pair for pair in plan.pairs if _is_wrong(found[pair.name]) and echoes(pair, effort).seconds <= _SECOND_LOOK_S
    ]
    found |= zip([pair.name for pair in again], _echo(again, effort, running, known), strict=True)
    return [row for rows in found.values() for row in rows]


def _is_wrong(rows: Sequence[Row]) -> bool:
    return any(row.verdict is Verdict.WRONG for row in rows)


def _echo(pairs: Sequence[Pair], effort: Effort, running: Running, known: Known) -> list[list[Row]]:
    """The rows of each pair."""
    found = []
    answers = echo_all([(pair, echoes(pair, effort)) for pair in pairs], running)
    for pair, (responded, echoed) in zip(pairs, answers, strict=True):
        known.add_echo(pair, responded, echoed)
        both_s = math.hypot(pair.there.jitter_s, pair.back.jitter_s)
        rows = [judge.round_trip(pair.name, pair.probe_round_trip_s(PROBE_BYTES), both_s, echoed.round_trips_s)]
        ways = (("jitter", pair.there, echoed.there_s), ("jitter back", pair.back, echoed.back_s))
        rows += [judge.jitter(pair.name, what, way.jitter_s, times) for what, way, times in ways if way.jitter_s]
        found.append(rows)
    return found


def all_losses(plan: Plan, running: Running, known: Known) -> list[Row]:
    rows: list[Row] = []
    works = loss_work(plan.pairs, plan.effort)
    for wave in waves(works):
        for pair, need, sent, received in stream_all(wave, running):
            arrived = received.packets + received.overflowed
            known.add(pair.origin, pair.dest, sent.packets, arrived)
            rows.append(judge.loss(pair.name, pair.there.loss, need.count, sent.packets - arrived, len(works)))
    return rows


def counted(plan: Plan, engine: Path, known: Known) -> list[Row]:
    """Compares the nodes' counts with the fabric's, over the whole life of a network that is down."""
    offered: Counter[Ends] = Counter()
    dropped: Counter[Ends] = Counter()
    for line in (engine / LINKS).read_bytes().splitlines():
        for pair in msgspec.json.decode(line, type=Second).pairs or []:
            offered[pair.origin, pair.dest] += pair.packets
            dropped[pair.origin, pair.dest] += pair.dropped_packets
    rows = []
    for each in plan.pairs:
        there = (each.origin, each.dest)
        rows.append(judge.counted(each.name, known.missing[there], dropped[there], known.sent[there], offered[there]))
    return rows
