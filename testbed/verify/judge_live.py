"""Compares measured values with those asked for while learners' traffic shares the queues.

Takes numbers and the fabric's counts, gives `Row`s; touches nothing. A packet cannot be faster than its links under any
load. One that is slower or lost may be due to the learners' traffic: then the row is reported, not judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from testbed.engines.fabric.accounts import LinkLine
from testbed.network.graph import Network
from testbed.verify import judge
from testbed.verify.judge import ROUND_TRIP_S, ROUND_TRIP_SHARE, Row, Verdict

TESTS = 1_000
"""Number of loss tests among which a false alarm is as rare as `judge.FALSE_ALARM`."""
_MOST_SIGMAS = 4.5
"""How far the minimum of some hundred draws may be from the value asked for."""
_CLOCK_SHARE = 0.02
"""By how much a second may have been longer than the fabric recorded."""
_LARGEST_PACKET_BITS = 12_000
ENOUGH_DROPS = 10
"""Expected drops: with fewer, a loss that is wrong by half would look right."""


class Counted(Protocol):
    """One second of a fabric's counts."""

    @property
    def seconds(self) -> float: ...

    @property
    def links(self) -> dict[int, LinkLine]: ...


def least_round_trip(pair: str, asked_s: float, jitter_s: float, measured_s: Sequence[float], waits_s: float) -> Row:
    """Judges the fastest answer, which met the least traffic; `waits_s`: the least queueing that the fabric counted."""
    what = "round trip, least"
    if not measured_s:
        return Row(pair, what, asked_s * 1e3, None, "ms", Verdict.WRONG, "no answer at all")
    least_s = min(measured_s)
    most_off_s = max(ROUND_TRIP_S, ROUND_TRIP_SHARE * asked_s) + _MOST_SIGMAS * jitter_s
    off_s = least_s - asked_s
    verdict = Verdict.OK if abs(off_s) <= most_off_s else Verdict.WRONG
    detail = f"±{most_off_s * 1e3:.2f} ms, n {len(measured_s)}"
    if most_off_s < off_s <= most_off_s + waits_s:
        verdict = Verdict.TOLD
        detail += f"; queues of {waits_s * 1e3:.1f} ms were on the way"
    return Row(pair, what, asked_s * 1e3, least_s * 1e3, "ms", verdict, detail)


def loss(pair: str, what: str, asked: float, sent: int, missing: int, *, crowded: bool) -> Row:
    """Judges losses; where queues on the path dropped packets meanwhile, too many losses are only reported."""
    row = replace(judge.loss(pair, asked, sent, missing, TESTS), what=what)
    if row.verdict is Verdict.WRONG and crowded and missing > asked * sent:
        return replace(row, verdict=Verdict.TOLD, detail=f"{row.detail}; queues on the way were full")
    return row


def counted_losses(network: Network, seconds: Sequence[Counted], tests: int) -> tuple[list[Row], int]:
    """Judges the fabric's counts of every link that should have lost enough packets, or lost too many.

    Also returns how many lossy links were left out because too few packets crossed them.
    """
    sent: dict[int, int] = {}
    lost: dict[int, int] = {}
    for each in seconds:
        for link, line in each.links.items():
            sent[link] = sent.get(link, 0) + line.packets
            lost[link] = lost.get(link, 0) + line.dropped_loss
    concerned = [link for link in sorted(sent) if sent[link] and (lost[link] or network.loss[link] > 0)]
    rows = []
    for link in concerned:
        asked = float(network.loss[link])
        row = judge.loss(_name(network, link), asked, sent[link], lost[link], max(tests, TESTS))
        if asked * sent[link] >= ENOUGH_DROPS or row.verdict is Verdict.WRONG:
            rows.append(replace(row, what="loss, counted"))
    return rows, len(concerned) - len(rows)


def busiest(network: Network, seconds: Sequence[Counted]) -> list[Row]:
    """Judges that no link carried more in any second than its rate.

    Returns the links that did, or else the one that came closest; nothing where no link carried anything.
    """
    found: dict[int, tuple[float, float]] = {}
    for each in seconds:
        for link, line in each.links.items():
            rate = float(network.rate_bps[link])
            if not math.isfinite(rate):
                continue
            # Bytes are counted when they enter a queue: what waits there at the end has not been sent yet.
            most = rate * (each.seconds * (1 + _CLOCK_SHARE) + line.queue_max_ms / 1e3) + _LARGEST_PACKET_BITS
            found[link] = max(found.get(link, (0.0, 0.0)), (line.bytes * 8 / most, line.bytes * 8 / each.seconds))
    ordered = sorted(found, key=lambda link: found[link], reverse=True)
    shown = [link for link in ordered if found[link][0] > 1.0] or ordered[:1]
    detail = f"the busiest of {len(found)} links; what was waiting at its end taken off"
    return [
        Row(
            _name(network, link),
            "busiest second",
            float(network.rate_bps[link]) / 1e6,
            found[link][1] / 1e6,
            "Mbps",
            Verdict.OK if found[link][0] <= 1.0 else Verdict.WRONG,
            detail,
        )
        for link in shown
    ]


def _name(network: Network, link: int) -> str:
    return f"{network.names[network.origin[link]]} → {network.names[network.dest[link]]}"
