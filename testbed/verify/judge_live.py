"""Asked against measured beside learners, whose traffic waits in the same queues.

Takes numbers and the fabric's counts, gives `Row`s; touches nothing. A packet cannot be faster than its links, however
much there is on them; that it is slower, or lost, may be the learners' doing: then the row only tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from testbed.engines.fabric.traffic_log import LinkLine
from testbed.network.graph import Network
from testbed.verify import judge
from testbed.verify.judge import ROUND_TRIP_S, ROUND_TRIP_SHARE, Row, Verdict

TESTS = 1_000
"""Among so many tests of losses, a false alarm is as rare as promised."""
_MOST_SIGMAS = 4.5
"""How far the least of some hundred draws may be from what is asked."""
_CLOCK_SHARE = 0.02
"""How much longer than it says a second of the fabric's may have been."""
_LARGEST_PACKET_BITS = 12_000
ENOUGH_DROPS = 10
"""Expected, that is: with fewer, a loss that is wrong by half would look like one that is right."""


class Counted(Protocol):
    """One second of a fabric's counts."""

    @property
    def seconds(self) -> float: ...

    @property
    def links(self) -> dict[int, LinkLine]: ...


def least_round_trip(pair: str, asked_s: float, jitter_s: float, measured_s: Sequence[float], waits_s: float) -> Row:
    """The fastest answer met little traffic; `waits_s`: how long packets waited at the least, as the fabric counts."""
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
    """Two-sided; where queues on the way have dropped packets meanwhile, too many are no proof of anything."""
    row = replace(judge.loss(pair, asked, sent, missing, TESTS), what=what)
    if row.verdict is Verdict.WRONG and crowded and missing > asked * sent:
        return replace(row, verdict=Verdict.TOLD, detail=f"{row.detail}; queues on the way were full")
    return row


def counted_losses(network: Network, seconds: Sequence[Counted], tests: int) -> tuple[list[Row], int]:
    """The fabric's own count of every link that should have lost enough of what crossed it, or lost too much.

    And how many others are lossy, of which too few packets tell nothing.
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
    """No link carried more in any second than its rate; the one that came closest, and those that did.

    Nothing where none carried anything.
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
