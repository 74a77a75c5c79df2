"""The few shapes of which every picture consists, in CSS pixels from the top left corner.

Pure data: the painters (SVG, PNG) know nothing of networks, and the modules that compose a picture nothing of painting.
A shape's `tip` is its tooltip.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from unicodedata import east_asian_width

Point = tuple[float, float]


class Anchor(StrEnum):
    """Which part of a text stands at its x."""

    START = "start"
    MIDDLE = "middle"
    END = "end"


@dataclass(frozen=True, slots=True)
class Stroke:
    """A straight line, or a quadratic curve when there is a `bend` (its control point)."""

    start: Point
    end: Point
    colour: str
    width: float = 1.0
    bend: Point | None = None
    dashed: bool = False
    opacity: float = 1.0
    tip: str = ""
    role: str = "line"


@dataclass(frozen=True, slots=True)
class Disc:
    centre: Point
    radius: float
    fill: str
    edge: str = ""
    width: float = 1.0
    dashed: bool = False
    tip: str = ""
    role: str = "disc"


@dataclass(frozen=True, slots=True)
class Polygon:
    points: tuple[Point, ...]
    fill: str
    edge: str = ""
    width: float = 1.0
    dashed: bool = False
    tip: str = ""
    role: str = "polygon"


@dataclass(frozen=True, slots=True)
class Words:
    """One line of text, vertically centred on y; `halo` keeps it readable over lines."""

    at: Point
    text: str
    size: float = 12.0
    anchor: Anchor = Anchor.START
    colour: str = "#1f2933"
    bold: bool = False
    halo: bool = True
    tip: str = ""
    role: str = "words"


Shape = Stroke | Disc | Polygon | Words


@dataclass(frozen=True, slots=True)
class Picture:
    """A finished drawing: what painters paint, in this order."""

    width: float
    height: float
    title: str
    description: str
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """An upright rectangle, to see what would overlap."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """The area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return width * height if width > 0 and height > 0 else 0.0

    def grown(self, by: float) -> Box:
        return Box(self.left - by, self.top - by, self.right + by, self.bottom + by)

    def union(self, other: Box) -> Box:
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )

    def crossed_by(self, start: Point, end: Point) -> bool:
        """Whether a straight line touches it (Liang and Barsky's clipping)."""
        enter, leave = 0.0, 1.0
        for origin, delta, low, high in (
            (start[0], end[0] - start[0], self.left, self.right),
            (start[1], end[1] - start[1], self.top, self.bottom),
        ):
            if delta == 0:
                if not low <= origin <= high:
                    return False
                continue
            near, far = sorted(((low - origin) / delta, (high - origin) / delta))
            enter, leave = max(enter, near), min(leave, far)
        return enter <= leave


_NARROW = frozenset("iljtfrI.,:;'|!()[]·` ")
_WIDE = frozenset("mwMW@%—")


def text_width(text: str, size: float, bold: bool = False) -> float:
    """About how wide a text is in the fonts we ask for, rather too much than too little."""
    ems = 0.0
    for char in text:
        if char in _NARROW:
            ems += 0.36
        elif char in _WIDE:
            ems += 0.95
        elif east_asian_width(char) in "WF":
            ems += 1.0
        else:
            ems += 0.62
    return ems * size * (1.1 if bold else 1.0)


def box_of(words: Words) -> Box:
    """The room a text takes."""
    width = text_width(words.text, words.size, words.bold)
    share = {Anchor.START: 0.0, Anchor.MIDDLE: 0.5, Anchor.END: 1.0}[words.anchor]
    left = words.at[0] - width * share
    return Box(left, words.at[1] - words.size * 0.6, left + width, words.at[1] + words.size * 0.6)


def bounds(shape: Shape) -> Box:
    """The room a shape takes."""
    if isinstance(shape, Words):
        return box_of(shape)
    if isinstance(shape, Disc):
        (x, y), radius = shape.centre, shape.radius + shape.width / 2
        return Box(x - radius, y - radius, x + radius, y + radius)
    if isinstance(shape, Stroke):
        points: tuple[Point, ...] = (shape.start, shape.end)
        if shape.bend:  # a quadratic curve stays within half the way to its control point
            points += tuple(((end[0] + shape.bend[0]) / 2, (end[1] + shape.bend[1]) / 2) for end in points)
    else:
        points = shape.points
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    return Box(min(xs), min(ys), max(xs), max(ys))


def moved(shape: Shape, by: Point) -> Shape:
    """The same shape elsewhere."""

    def shift(point: Point) -> Point:
        return (point[0] + by[0], point[1] + by[1])

    if isinstance(shape, Words):
        return replace(shape, at=shift(shape.at))
    if isinstance(shape, Disc):
        return replace(shape, centre=shift(shape.centre))
    if isinstance(shape, Stroke):
        bend = shift(shape.bend) if shape.bend else None
        return replace(shape, start=shift(shape.start), end=shift(shape.end), bend=bend)
    return replace(shape, points=tuple(shift(point) for point in shape.points))


def scaled(shape: Shape, by: float) -> Shape:
    """The same shape, smaller or larger, with its distance from the origin."""

    def shrink(point: Point) -> Point:
        return (point[0] * by, point[1] * by)

    if isinstance(shape, Words):
        return replace(shape, at=shrink(shape.at), size=shape.size * by)
    if isinstance(shape, Disc):
        return replace(shape, centre=shrink(shape.centre), radius=shape.radius * by, width=shape.width * by)
    if isinstance(shape, Stroke):
        bend = shrink(shape.bend) if shape.bend else None
        return replace(shape, start=shrink(shape.start), end=shrink(shape.end), bend=bend, width=shape.width * by)
    return replace(shape, points=tuple(shrink(point) for point in shape.points), width=shape.width * by)
