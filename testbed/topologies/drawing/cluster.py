"""The shape of a cluster: a bridge in the middle and the nodes behind it on rings, each group in a sector of its own.

Takes counts and sizes, gives radii and offsets from the centre; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.topologies.drawing.shapes import Point

_FULL_TURN = 2 * math.pi


@dataclass(frozen=True, slots=True)
class Measure:
    """How large the parts of clusters are drawn in one picture."""

    dot: float
    hub: float
    spacing: float
    """From dot to dot, centre to centre."""
    one_ring_up_to: int
    """So many nodes stand on a single ring, where each one's access link can be drawn."""
    dots_up_to: int
    """More nodes than this at one place become a disc for each group, with the count in it."""
    tiny: bool = False
    """There are so many places that each is only a speck."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One dot: which of the cluster's groups, which of its nodes (None: all of them), where."""

    group: int
    member: int | None
    offset: Point
    radius: float


@dataclass(frozen=True, slots=True)
class Sector:
    """The angles between which a group's dots stand."""

    start: float
    end: float

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


@dataclass(frozen=True, slots=True)
class Cluster:
    radius: float
    """Of everything, with a margin."""
    first_ring: float
    rings: int
    spots: tuple[Spot, ...]
    sectors: tuple[Sector, ...]


def polar(angle: float, radius: float) -> Point:
    return (math.cos(angle) * radius, math.sin(angle) * radius)


def disc_radius(count: int, measure: Measure) -> float:
    """The size of the disc that stands for a whole group: area grows with the count, but no disc hides the rest."""
    return max(11.0, min(measure.dot * math.sqrt(count) * 0.9, 34.0))


def cluster(
    counts: Sequence[int],
    has_hub: bool,
    measure: Measure,
    facing: float = -math.pi / 2,
    widened: float = 1.0,
    bracketed: bool = False,
) -> Cluster:
    """Groups of these sizes around a hub (or around nothing), beginning opposite to where `facing` points.

    `bracketed` leaves room for the bracket of a shared access link between hub and nodes.
    """
    total = sum(counts)
    if total > measure.dots_up_to:
        return _discs(counts, has_hub, measure, facing, widened)
    if total == 0:
        return Cluster(measure.hub * 1.3, 0.0, 0, (), ())
    if total == 1 and not has_hub:
        return Cluster(measure.dot * 1.3, 0.0, 0, (Spot(0, 0, (0.0, 0.0), measure.dot),), (Sector(facing, facing),))
    if total == 1 and measure.tiny:
        return Cluster(measure.hub, 0.0, 0, (Spot(0, 0, (0.0, 0.0), measure.dot * 0.55),), (Sector(facing, facing),))
    rings = _rings(total, has_hub, measure, widened, bracketed)
    few = len(rings) == 1 and total <= 3 and has_hub
    slots: list[tuple[float, float]] = []
    for index, (radius, count) in enumerate(rings):
        if few:
            fan = [facing + (at - (count - 1) / 2) * 0.95 for at in range(count)]
        else:
            # Every other ring is turned by half a step, so that dots stand in each other's gaps.
            step = _FULL_TURN / count
            first = facing - (math.pi if len(counts) > 1 else 0.0)
            fan = [first + (at + 0.5 * ((index + (len(counts) > 1)) % 2)) * step for at in range(count)]
        slots.extend((angle, radius) for angle in fan)
    slots.sort(key=lambda slot: (round(slot[0], 9), slot[1]))
    spots: list[Spot] = []
    sectors: list[Sector] = []
    for group, count in enumerate(counts):
        mine = slots[len(spots) : len(spots) + count]
        spots.extend(Spot(group, at, polar(*slot), measure.dot) for at, slot in enumerate(mine))
        sectors.append(Sector(mine[0][0], mine[-1][0]))
    outer = rings[-1][0] + measure.dot
    return Cluster(outer + measure.dot * 0.9, rings[0][0], len(rings), tuple(spots), tuple(sectors))


def _rings(total: int, has_hub: bool, measure: Measure, widened: float, bracketed: bool) -> list[tuple[float, int]]:
    """Radius and number of dots of each ring, from the inside."""
    close = 0.35 if total <= 3 else 0.55
    close += 0.5 if bracketed else 0.0
    innermost = (measure.hub + measure.dot + measure.spacing * close) * widened if has_hub else 0.0
    if total <= measure.one_ring_up_to:
        around = total * measure.spacing / _FULL_TURN if total > 1 else 0.0
        return [(max(innermost, around * widened, measure.spacing * 0.6), total)]
    rings: list[tuple[float, int]] = []
    radius = innermost
    while total > 0:
        fits = max(1, int(_FULL_TURN * radius / measure.spacing))
        taken = min(fits, total)
        rings.append((radius, taken))
        total -= taken
        radius += measure.spacing
    return rings


def _discs(counts: Sequence[int], has_hub: bool, measure: Measure, facing: float, widened: float) -> Cluster:
    """One disc for each group, side by side on a ring."""
    radii = [disc_radius(count, measure) for count in counts]
    if len(counts) == 1 and not has_hub:
        spots: tuple[Spot, ...] = (Spot(0, None, (0.0, 0.0), radii[0]),)
        return Cluster(radii[0] + 4, 0.0, 0, spots, (Sector(facing, facing),))
    around = sum(2 * radius + 6 for radius in radii)
    ring = max(around / _FULL_TURN, (measure.hub + max(radii) + 8 if has_hub else max(radii) + 4)) * widened
    angle = facing if len(counts) <= 2 else facing - math.pi
    placed: list[Spot] = []
    sectors: list[Sector] = []
    for group, radius in enumerate(radii):
        share = (2 * radius + 6) / around * _FULL_TURN
        middle = angle + (share / 2 if len(counts) > 1 else 0.0)
        placed.append(Spot(group, None, polar(middle, ring), radius))
        sectors.append(Sector(middle, middle))
        angle += share
    return Cluster(ring + max(radii) + 6, ring, 1, tuple(placed), tuple(sectors))
