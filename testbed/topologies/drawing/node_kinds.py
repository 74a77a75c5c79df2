"""Groups nodes that look alike: by access rates and computing speed, with slow nodes distinguished.

Takes an `Anatomy`, gives a kind with colour and words for every group; touches nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_high

from testbed.topologies.drawing.grouping import Anatomy
from testbed.topologies.drawing.palette import CATEGORIES, STRAGGLER, UNLINKED
from testbed.topologies.drawing.wording import number, rate

_SLOW = 0.5
"""Half of what is usual, or less."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What sets a node's pace."""

    up_bps: float
    down_bps: float
    speed: float

    @property
    def narrowest_bps(self) -> float:
        return min(self.up_bps, self.down_bps)


@dataclass(frozen=True, slots=True)
class NodeKind:
    """How some nodes are drawn and what the legend says of them."""

    words: str
    colour: str
    slow: bool
    count: int


def node_kinds(anatomy: Anatomy) -> tuple[tuple[NodeKind, ...], dict[int, NodeKind]]:
    """The kinds, fastest first, and the kind of every group by place."""
    of_place = {place: abilities(anatomy, place) for place in anatomy.places if not anatomy.is_bridge(place)}
    if not of_place:
        return (), {}
    sizes: Counter[Abilities] = Counter()
    for place, found in of_place.items():
        sizes[found] += len(anatomy.group(place).nodes)
    slow = _slow_ones(sizes)
    ordered = sorted(sizes, key=lambda one: (-one.narrowest_bps, -one.up_bps - one.down_bps, -one.speed))
    alone = [one for one in ordered if one.up_bps == one.down_bps == 0]
    usual = [one for one in ordered if one not in slow and one not in alone]
    sets = _bins(usual, len(CATEGORIES)) if usual else []
    kinds: dict[Abilities, NodeKind] = {}
    for colour, members in zip(CATEGORIES, sets, strict=False):
        kinds |= dict.fromkeys(members, _kind(members, colour, False, sizes))
    slow_ones = [one for one in ordered if one in slow]
    if slow_ones:
        kinds |= dict.fromkeys(slow_ones, _kind(slow_ones, STRAGGLER, True, sizes))
    if alone:
        kinds |= dict.fromkeys(alone, _kind(alone, UNLINKED, False, sizes))
    return tuple(dict.fromkeys(kinds[one] for one in (*usual, *slow_ones, *alone))), {
        place: kinds[found] for place, found in of_place.items()
    }


def abilities(anatomy: Anatomy, place: int) -> Abilities:
    """The best rate out of and into a group, and its nodes' computing speed; of parallel links, the leading ones."""
    ties = anatomy.ties_of[place]
    outward = [lane.properties.rate_bps for tie in ties for lane in tie.lanes_from(place)[:1]]
    inward = [lane.properties.rate_bps for tie in ties for lane in tie.lanes_from(tie.other(place))[:1]]
    for lane in anatomy.inner.get(place, ())[:1]:
        outward.append(lane.properties.rate_bps)
        inward.append(lane.properties.rate_bps)
    return Abilities(max(outward, default=0.0), max(inward, default=0.0), anatomy.group(place).service.speed)


def _slow_ones(sizes: Counter[Abilities]) -> set[Abilities]:
    """Those with at most half the median node's rate or speed (a node without any link is not slow, it is alone)."""
    linked = {one: count for one, count in sizes.items() if one.narrowest_bps > 0}
    if not linked:
        return set()
    usual_bps = median_high([one.narrowest_bps for one, count in linked.items() for _ in range(count)])
    usual_speed = median_high([one.speed for one, count in linked.items() for _ in range(count)])
    return {
        one
        for one in linked
        if (one.narrowest_bps != usual_bps and one.narrowest_bps <= usual_bps * _SLOW)
        or one.speed <= usual_speed * _SLOW
    }


def _bins(ordered: Sequence[Abilities], most: int) -> list[list[Abilities]]:
    """At most so many runs of neighbours, of about equal length."""
    if len(ordered) <= most:
        return [[one] for one in ordered]
    cuts = [round(len(ordered) * at / most) for at in range(most + 1)]
    return [list(ordered[start:end]) for start, end in pairwise(cuts)]


def _kind(members: Sequence[Abilities], colour: str, slow: bool, sizes: Counter[Abilities]) -> NodeKind:
    return NodeKind(_words(members), colour, slow, sum(sizes[one] for one in members))


def _words(members: Sequence[Abilities]) -> str:
    ups = [one.up_bps for one in members]
    downs = [one.down_bps for one in members]
    if max(ups) == max(downs) == 0:
        words = "no link"
    elif ups == downs:
        words = _span(ups)
    else:
        words = f"{_span(ups)} up, {_span(downs)} down"
    speeds = sorted({one.speed for one in members})
    if speeds != [1.0]:
        numbers = number(speeds[0]) if len(speeds) == 1 else f"{number(speeds[0])}–{number(speeds[-1])}"
        words += f", compute ×{numbers}"
    return words


def _span(rates: Sequence[float]) -> str:
    low, high = min(rates), max(rates)
    if high == 0:
        return "none"
    return rate(low) if low == high else f"{rate(low)} to {rate(high)}"
