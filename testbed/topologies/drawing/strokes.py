"""Draws links: colour and width by their properties, arrow heads, detours around other places.

Takes ties and positions, gives shapes; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from testbed.topologies.drawing.grouping import Tie
from testbed.topologies.drawing.palette import LOSS, PAPER, Scale, ramp
from testbed.topologies.drawing.shapes import Box, Point, Polygon, Shape, Stroke
from testbed.topologies.drawing.style import Colour

PLAIN = "#4a6785"
"""The colour of links that are all alike."""


@dataclass(frozen=True, slots=True)
class Pen:
    """What the colour and width of every link in one picture mean."""

    colour: Colour
    scale: Scale
    widths: Scale
    thin: float
    thick: float
    access_coloured: bool
    """Whether access links are on the scale of colours: when they differ. Else they are neutral."""
    access_widened: bool
    """Whether they are on the scale of widths: the same rule."""

    @classmethod
    def of(cls, backbone: Sequence[Tie], spokes: Sequence[Tie], rims: Sequence[Tie], colour: Colour) -> Pen:
        """For the links between places, the access links drawn as lines, and those shown at their nodes' rims."""
        access = [*spokes, *rims]
        coloured = len({_metric(tie, colour) for tie in access}) > 1
        widened = len({_narrowest(tie) for tie in spokes}) > 1
        crowd = len(backbone) or len(spokes)
        fine = 1.0 if crowd <= 60 else 0.7 if crowd <= 300 else 0.45 if crowd <= 2000 else 0.25
        on_scale = [*backbone, *access] if coloured else backbone
        wide = [*backbone, *spokes] if widened else backbone
        return cls(
            colour,
            Scale.of((_metric(tie, colour) for tie in on_scale), 0.0 if colour is Colour.RATE else 0.5),
            Scale.of((_narrowest(tie) for tie in wide), 0.0),
            1.1 * fine,
            4.2 * fine,
            coloured,
            widened,
        )

    def colour_of(self, tie: Tie) -> str:
        return PLAIN if self.scale.flat else self.tint(self.scale.share(_metric(tie, self.colour)))

    def tint(self, share: float) -> str:
        """The darker, the worse: longer, lossier, slower."""
        return ramp(1 - share if self.colour is Colour.RATE else share)

    def width_of(self, tie: Tie) -> float:
        if self.widths.flat:
            return self.thin + (self.thick - self.thin) * 0.3
        return self.thin + (self.thick - self.thin) * self.widths.share(_narrowest(tie))

    def marks_loss(self, tie: Tie, coloured: bool) -> bool:
        """Whether the tie needs a diamond: it loses packets, and its colour does not say how many."""
        told = coloured and self.colour is Colour.LOSS and not self.scale.flat
        return worst_loss(tie) > (_metric(tie, self.colour) if told else 0.0)


def _metric(tie: Tie, colour: Colour) -> float:
    """The worse of both directions; of parallel links, of those that lead."""
    properties = [lane.properties for lane in tie.leading]
    if colour is Colour.LATENCY:
        return max(one.latency_ms for one in properties)
    if colour is Colour.RATE:
        return min(one.rate_bps for one in properties)
    return max(one.loss for one in properties)


def _narrowest(tie: Tie) -> float:
    return min(lane.properties.rate_bps for lane in tie.leading)


def worst_loss(tie: Tie) -> float:
    """Of all its links, parallel ones included."""
    return max(lane.properties.loss for lane in tie.lanes)


@dataclass(frozen=True, slots=True)
class Course:
    """Where a line runs: straight, or a quadratic curve over `bend`."""

    start: Point
    end: Point
    bend: Point | None = None

    def at(self, share: float) -> Point:
        if self.bend is None:
            return (
                self.start[0] + (self.end[0] - self.start[0]) * share,
                self.start[1] + (self.end[1] - self.start[1]) * share,
            )
        one, two, three = (1 - share) ** 2, 2 * share * (1 - share), share**2
        return (
            one * self.start[0] + two * self.bend[0] + three * self.end[0],
            one * self.start[1] + two * self.bend[1] + three * self.end[1],
        )

    def meets(self, frame: Box) -> bool:
        """Whether it runs through a rectangle."""
        if self.bend is None:
            return frame.crossed_by(self.start, self.end)
        points = [self.at(step / 8) for step in range(9)]
        return any(frame.crossed_by(one, two) for one, two in pairwise(points))

    def near(self, centre: Point, radius: float) -> bool:
        """Whether it passes within `radius` of a point."""
        parts = [self.start, self.end] if self.bend is None else [self.at(step / 12) for step in range(13)]
        return any(_distance(centre, one, two) < radius for one, two in pairwise(parts))


def _distance(point: Point, start: Point, end: Point) -> float:
    along = (end[0] - start[0], end[1] - start[1])
    length = along[0] ** 2 + along[1] ** 2
    share = 0.0
    if length:
        share = ((point[0] - start[0]) * along[0] + (point[1] - start[1]) * along[1]) / length
        share = min(max(share, 0.0), 1.0)
    return math.hypot(point[0] - start[0] - share * along[0], point[1] - start[1] - share * along[1])


def course(ends: tuple[int, int], centres: Sequence[Point], radii: Sequence[float], obstacles: Sequence[int]) -> Course:
    """From rim to rim; bent only when a straight line would pass through a place that it has nothing to do with."""
    first, second = ends
    straight = _between(centres[first], centres[second], radii[first], radii[second], 0.0)
    others = [at for at in obstacles if at not in ends]

    def hits(candidate: Course) -> int:
        return sum(candidate.near(centres[at], radii[at] + 4) for at in others)

    fewest = hits(straight)
    best = straight
    for swing in (0.12, -0.12, 0.22, -0.22, 0.32, -0.32):
        if fewest == 0:
            break
        candidate = _between(centres[first], centres[second], radii[first], radii[second], swing)
        found = hits(candidate)
        if found < fewest:
            best, fewest = candidate, found
    return best


def _between(start: Point, end: Point, start_radius: float, end_radius: float, swing: float) -> Course:
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    across = (start[1] - end[1], end[0] - start[0])
    bend = (middle[0] + across[0] * swing, middle[1] + across[1] * swing)
    return Course(
        _rim(start, bend if swing else end, start_radius),
        _rim(end, bend if swing else start, end_radius),
        bend if swing else None,
    )


def _rim(centre: Point, towards: Point, radius: float) -> Point:
    """Where a line from a centre leaves its circle; never beyond the point it goes to."""
    length = math.hypot(towards[0] - centre[0], towards[1] - centre[1])
    if length == 0:
        return centre
    share = min(radius / length, 0.49)
    return (centre[0] + (towards[0] - centre[0]) * share, centre[1] + (towards[1] - centre[1]) * share)


def stroke(tie: Tie, way: Course, colour: str, width: float, tip: str, opacity: float = 1.0) -> list[Shape]:
    """The line of a tie, with a head where it only leads one way."""
    end = way.end
    heads: list[Shape] = []
    start = way.start
    size = 6.0 + 1.6 * width
    if tie.one_way:
        if tie.forward:
            heads.append(arrow_head(way.bend or way.start, way.end, size, colour, tip))
            end = _rim(way.end, way.bend or way.start, size * 0.8)
        else:
            heads.append(arrow_head(way.bend or way.end, way.start, size, colour, tip))
            start = _rim(way.start, way.bend or way.end, size * 0.8)
    return [Stroke(start, end, colour, width, way.bend, tie.unsteady, opacity, tip, role="link"), *heads]


def arrow_head(origin: Point, tip_at: Point, size: float, colour: str, tip: str = "") -> Polygon:
    """A head whose point is at `tip_at`, coming from `origin`."""
    angle = math.atan2(tip_at[1] - origin[1], tip_at[0] - origin[0])
    corners = [
        (tip_at[0] - size * math.cos(angle + turn), tip_at[1] - size * math.sin(angle + turn)) for turn in (0.42, -0.42)
    ]
    return Polygon((tip_at, *corners), colour, tip=tip, role="arrow")


def loss_mark(at: Point, size: float = 4.6, tip: str = "") -> Polygon:
    """The diamond that marks packet loss."""
    x, y = at
    return Polygon(((x, y - size), (x + size, y), (x, y + size), (x - size, y)), LOSS, PAPER, 1.0, tip=tip, role="loss")


def arc(centre: Point, radius: float, start: float, end: float, colour: str, width: float) -> list[Shape]:
    """Part of a circle, as short lines."""
    steps = max(2, math.ceil(abs(end - start) / 0.15))
    points = [
        (
            centre[0] + radius * math.cos(start + (end - start) * step / steps),
            centre[1] + radius * math.sin(start + (end - start) * step / steps),
        )
        for step in range(steps + 1)
    ]
    return [Stroke(one, two, colour, width, role="shared") for one, two in pairwise(points)]
