"""Compares measured values with those asked for, with bounds on both sides.

Takes numbers, gives `Row`s; touches nothing. The bounds are the ones that docs/verify.md promises.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

ROUND_TRIP_S, ROUND_TRIP_SHARE = 0.0005, 0.01
LEAST_RATE, MOST_RATE = 0.90, 1.00
JITTER_SHARE = 0.15
QUEUE_SHARE = 0.15
LEAST_SHARE, MOST_SHARE, LEAST_TOGETHER = 0.15, 0.35, 0.90
CHANGE_S = 0.05
FALSE_ALARM = 0.001
"""Probability that any of all loss tests fails on a correct network."""
_CHANCE = 3.3
"""Allowed deviation of a sample in standard errors: one in a thousand is further off."""
_MEDIAN_ERROR = 1.2533
"""Standard error of the median of normal values, as a multiple of that of the mean."""
_FAR = 4.5
_MOST_FAR = 0.01
"""Share of outliers up to which they are blamed on this machine."""


class Verdict(StrEnum):
    OK = "ok"
    WRONG = "wrong"
    TOLD = "told"
    """Reported, not judged: nothing is promised here."""
    UNMEASURED = "unmeasured"
    """This machine cannot measure it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One property of one pair."""

    pair: str
    what: str
    asked: float | None
    measured: float | None
    unit: str
    verdict: Verdict
    detail: str = ""


def _verdict(*, is_right: bool) -> Verdict:
    return Verdict.OK if is_right else Verdict.WRONG


def round_trip(
    pair: str, asked_s: float, jitter_s: float, measured_s: Sequence[float], what: str = "round trip"
) -> Row:
    """`jitter_s` is that of both directions together; it widens the bound on the median."""
    if not measured_s:
        return Row(pair, what, asked_s * 1e3, None, "ms", Verdict.WRONG, "no answer at all")
    median_s = statistics.median(measured_s)
    chance_s = _CHANCE * _MEDIAN_ERROR * jitter_s / math.sqrt(len(measured_s))
    most_s = max(ROUND_TRIP_S, ROUND_TRIP_SHARE * asked_s, chance_s)
    ordered = sorted(measured_s)
    p99_ms = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] * 1e3
    right = abs(median_s - asked_s) <= most_s
    detail = f"±{most_s * 1e3:.2f} ms; p99 {p99_ms:.2f} ms, n {len(ordered)}"
    return Row(pair, what, asked_s * 1e3, median_s * 1e3, "ms", _verdict(is_right=right), detail)


def jitter(pair: str, what: str, asked_s: float, delays_s: Sequence[float]) -> Row:
    """Compares standard deviations, without the few outliers that come from a suspended or busy host."""
    if len(delays_s) < 2:
        return Row(pair, what, asked_s * 1e3, None, "ms", Verdict.WRONG, "no answer at all")
    middle_s = statistics.median(delays_s)
    spread_s = 1.4826 * statistics.median(abs(each - middle_s) for each in delays_s)
    near = [each for each in delays_s if abs(each - middle_s) <= _FAR * spread_s]
    far = len(delays_s) - len(near)
    found_s = statistics.stdev(near) if len(near) > 1 else 0.0
    share = max(JITTER_SHARE, _CHANCE / math.sqrt(2 * len(near)))
    right = abs(found_s - asked_s) <= share * asked_s and far <= _MOST_FAR * len(delays_s)
    detail = f"±{share:.0%}; n {len(near)}" + (f", {far} far off" if far else "")
    return Row(pair, what, asked_s * 1e3, found_s * 1e3, "ms", _verdict(is_right=right), detail)


def rate(
    pair: str, what: str, asked_bps: float, measured_bps: float, *, gated: bool, chance: float = 0.0, detail: str = ""
) -> Row:
    """Compares payload per second with the bottleneck's rate; `chance` is the share that random losses may change."""
    right = LEAST_RATE - chance <= measured_bps / asked_bps <= MOST_RATE + chance
    verdict = _verdict(is_right=right) if gated else Verdict.TOLD
    bounds = f"{measured_bps / asked_bps:.1%} of it" + ("" if gated else ", not judged")
    told = "; ".join(each for each in (bounds, detail) if each)
    return Row(pair, what, asked_bps / 1e6, measured_bps / 1e6, "Mbps", verdict, told)


def loss(pair: str, asked: float, sent: int, missing: int, tests: int) -> Row:
    """Bounds are so wide that among `tests` tests a false alarm is as rare as `FALSE_ALARM`."""
    level = FALSE_ALARM / max(1, tests) / 2
    least, most = _binomial_bounds(sent, asked, level)
    right = least <= missing <= most
    detail = f"{missing} of {sent}, between {least} and {most}; {asked * sent:.0f} expected"
    measured = missing / sent if sent else None
    percent = None if measured is None else measured * 100
    return Row(pair, "loss", asked * 100, percent, "%", _verdict(is_right=right and sent > 0), detail)


def _binomial_bounds(n: int, p: float, level: float) -> tuple[int, int]:
    """The counts beyond which each tail has a probability below `level`."""
    if p <= 0.0 or n <= 0:
        return 0, 0
    if p >= 1.0:
        return n, n
    mean, deviation = n * p, math.sqrt(n * p * (1 - p))
    start = max(0, int(mean - 12 * deviation - 12))
    below, least, count = 0.0, None, start
    while True:
        below += _binomial(n, p, count)
        if least is None and below > level:
            least = count
        if below >= 1.0 - level or count >= n:
            return (least if least is not None else start), count
        count += 1


def _binomial(n: int, p: float, k: int) -> float:
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(log + k * math.log(p) + (n - k) * math.log1p(-p))


def counted(pair: str, missing: int, dropped: int, sent: int, offered: int) -> Row:
    """Packets missing at the nodes must be exactly those that the fabric counted as dropped."""
    right = missing == dropped and sent == offered
    detail = f"{offered} packets offered of {sent} sent"
    return Row(pair, "drops counted", float(missing), float(dropped), "packets", _verdict(is_right=right), detail)


def chance_of_loss(loss: float, packets: int) -> float:
    """Share by which random losses may change the number of packets that arrive."""
    return _CHANCE * math.sqrt(loss / (1.0 - loss) / packets) if packets else 0.0


def queue(pair: str, asked_s: float, measured_s: float) -> Row:
    right = abs(measured_s - asked_s) <= QUEUE_SHARE * asked_s
    detail = f"±{QUEUE_SHARE:.0%}"
    return Row(pair, "queue", asked_s * 1e3, measured_s * 1e3, "ms", _verdict(is_right=right), detail)


def filled_queue(pair: str, asked_s: float, measured_s: float, *, is_full: bool) -> Row:
    """Judges a queue that TCP was to fill; one that dropped nothing and is not too long was not full: unmeasured."""
    row = queue(pair, asked_s, measured_s)
    if is_full or measured_s > (1 + QUEUE_SHARE) * asked_s:
        return replace(row, detail=f"{row.detail}; filled by TCP")
    return replace(row, verdict=Verdict.UNMEASURED, detail="TCP did not fill it")


def change(pair: str, what: str, link: str, noticed_s: float | None) -> Row:
    """Judges how long after the change of a link packets showed it."""
    if noticed_s is None:
        return Row(pair, what, 0.0, None, "ms", Verdict.WRONG, f"{link}: no packet noticed")
    right = abs(noticed_s) <= CHANGE_S
    detail = f"{link}; at most {CHANGE_S * 1e3:.0f} ms"
    return Row(pair, what, 0.0, noticed_s * 1e3, "ms", _verdict(is_right=right), detail)


def is_fair(rate_bps: float, measured_bps: Sequence[float]) -> bool:
    """Whether every flow has a fair share."""
    return all(LEAST_SHARE <= each / rate_bps <= MOST_SHARE for each in measured_bps)


def shared(pairs: Sequence[str], rate_bps: float, measured_bps: Sequence[float]) -> list[Row]:
    """Judges every flow's share of the bottleneck, and their sum."""
    shares = [each / rate_bps for each in measured_bps]
    rows = [
        Row(
            pair,
            "share",
            100 / len(shares),
            share * 100,
            "%",
            _verdict(is_right=LEAST_SHARE <= share <= MOST_SHARE),
            f"{LEAST_SHARE:.0%} to {MOST_SHARE:.0%} of {rate_bps / 1e6:g} Mbps",
        )
        for pair, share in zip(pairs, shares, strict=True)
    ]
    together = sum(shares)
    right = LEAST_TOGETHER <= together <= MOST_RATE
    detail = f"{len(shares)} flows, at least {LEAST_TOGETHER:.0%}"
    return [*rows, Row("all flows", "shares", 100.0, together * 100, "%", _verdict(is_right=right), detail)]


def predicted_cubic_bps(loss: float, round_trip_s: float, segment_bytes: int = 1448) -> float:
    """RFC 9438's rate of one cubic flow on a path with random loss: the larger of its own window and Reno's."""
    own = 1.054 * math.pow(round_trip_s / loss, 0.75)
    reno = math.sqrt(1.5 / loss)
    return max(own, reno) * segment_bytes * 8 / round_trip_s
