"""Draws the classes of each learner: a column per learner, a row per class, darker for more samples.

Takes counts, gives a picture; touches nothing. The bar above a column is the learner's total number of samples. More
than 256 learners go into several bands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.topologies.drawing.palette import BUBBLE, FAINT, INK, MUTED, NEUTRAL, PAPER, ramp
from testbed.topologies.drawing.shapes import Anchor, Picture, Polygon, Shape, Stroke, Words

_MOST_IN_A_BAND = 256
_MARGIN = 24.0
_BARS = 48.0
_TITLE = 62.0
_AXIS = 38.0
_LETTER = 6.6
_WIDE_ENOUGH_FOR_NUMBERS = 34.0
_LEAST_WIDTH = 560.0


@dataclass(frozen=True)
class _Grid:
    """Geometry of the cells of a band."""

    left: float
    top: float
    wide: float
    tall: float
    first: int
    count: int

    def column(self, learner: int) -> float:
        return self.left + (learner - self.first) * self.wide

    @property
    def right(self) -> float:
        return self.left + self.count * self.wide


def picture_of_shares(title: str, description: str, labels: Sequence[str], counts: Sequence[Sequence[int]]) -> Picture:
    """The picture of counts by learner and class."""
    learners = len(counts)
    bands = -(-learners // _MOST_IN_A_BAND)
    per_band = -(-learners // bands)
    wide = min(44.0, max(4.0, 1024.0 / per_band))
    tall = 22.0 if len(labels) <= 20 else max(6.0, 440.0 / len(labels))
    left = _MARGIN + max(50.0, _LETTER * max(len(label) for label in labels)) + 10
    height = _BARS + len(labels) * tall + _AXIS
    shapes: list[Shape] = [
        Words((_MARGIN, 24), title, 15, bold=True, halo=False),
        Words((_MARGIN, 45), description, 12, colour=MUTED, halo=False),
    ]
    most_cell = max(1, max(max(row) for row in counts))
    most_all = max(1, max(sum(row) for row in counts))
    for band in range(bands):
        first = band * per_band
        grid = _Grid(left, _TITLE + band * height, wide, tall, first, min(per_band, learners - first))
        shapes += _bars(grid, counts, most_all)
        shapes += _rows(grid, labels)
        shapes += _cells(grid, labels, counts, most_cell)
        shapes += _axis(grid, len(labels))
    bottom = _TITLE + bands * height
    shapes += _scale(left, bottom + 8, most_cell)
    text = _MARGIN * 2 + _LETTER * max(len(title) * 1.35, len(description) * 1.02)
    width = max(_LEAST_WIDTH, left + per_band * wide + _MARGIN + 30, text)
    return Picture(width, bottom + 40, title, description, tuple(shapes))


def _box(left: float, top: float, right: float, bottom: float, fill: str, tip: str = "", role: str = "cell") -> Polygon:
    return Polygon(((left, top), (right, top), (right, bottom), (left, bottom)), fill, tip=tip, role=role)


def _bars(grid: _Grid, counts: Sequence[Sequence[int]], most: int) -> list[Shape]:
    floor = grid.top + _BARS - 6
    high = _BARS - 18
    gap = _gap(grid)
    shapes: list[Shape] = [
        Words((grid.left - 8, floor - high), str(most), 10, Anchor.END, MUTED, halo=False),
        Words((grid.left - 8, floor - 4), "samples", 10, Anchor.END, MUTED, halo=False),
        Stroke((grid.left, floor - high), (grid.right, floor - high), FAINT, 0.6, dashed=True),
    ]
    for learner in range(grid.first, grid.first + grid.count):
        size = sum(counts[learner])
        at = grid.column(learner)
        top = floor - max(1.0, high * size / most)
        tip = f"learner {learner}: {size} samples"
        shapes.append(_box(at + gap, top, at + grid.wide - gap, floor, NEUTRAL, tip, "bar"))
    return shapes


def _rows(grid: _Grid, labels: Sequence[str]) -> list[Shape]:
    top = grid.top + _BARS
    shapes: list[Shape] = [_box(grid.left, top, grid.right, top + len(labels) * grid.tall, BUBBLE, role="ground")]
    every = 1 if grid.tall >= 12 else int(-(-12 // grid.tall))
    for row, label in enumerate(labels):
        middle = top + (row + 0.5) * grid.tall
        if row % every == 0:
            shapes.append(Words((grid.left - 8, middle), label, 11, Anchor.END, INK, halo=False))
        if row and grid.tall >= 12:
            line = top + row * grid.tall
            shapes.append(Stroke((grid.left, line), (grid.right, line), PAPER, 1.5, role="row"))
    return shapes


def _cells(grid: _Grid, labels: Sequence[str], counts: Sequence[Sequence[int]], most: int) -> list[Shape]:
    shapes: list[Shape] = []
    gap = _gap(grid)
    margin = 1.0 if grid.tall >= 12 else 0.0
    for learner in range(grid.first, grid.first + grid.count):
        at = grid.column(learner)
        for row, count in enumerate(counts[learner]):
            if not count:
                continue
            top = grid.top + _BARS + row * grid.tall
            tip = f"learner {learner}: {count} of {labels[row]}"
            share = _share(count, most)
            box = (at + gap, top + margin, at + grid.wide - gap, top + grid.tall - margin)
            shapes.append(_box(*box, ramp(share), tip))
            if grid.wide >= _WIDE_ENOUGH_FOR_NUMBERS and grid.tall >= 14:
                colour = PAPER if share > 0.5 else INK
                middle = (at + grid.wide / 2, top + grid.tall / 2)
                shapes.append(Words(middle, str(count), 10, Anchor.MIDDLE, colour, halo=False, tip=tip))
    return shapes


def _axis(grid: _Grid, rows: int) -> list[Shape]:
    top = grid.top + _BARS + rows * grid.tall + 10
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200) if step * grid.wide >= 26)
    shapes: list[Shape] = [
        Words((grid.column(learner) + grid.wide / 2, top), str(learner), 10, Anchor.MIDDLE, MUTED, halo=False)
        for learner in range(grid.first, grid.first + grid.count)
        if learner % every == 0
    ]
    shapes.append(Words((grid.left - 8, top), "learner", 10, Anchor.END, MUTED, halo=False))
    return shapes


def _scale(left: float, top: float, most: int) -> list[Shape]:
    """The legend of the colours."""
    steps, wide, tall = 40, 4.0, 10.0
    shapes: list[Shape] = [
        _box(
            left + 10 + at * wide,
            top,
            left + 10 + (at + 1) * wide + 0.3,
            top + tall,
            ramp(at / (steps - 1)),
            role="scale",
        )
        for at in range(steps)
    ]
    middle = top + tall / 2
    shapes.append(Words((left, middle), "1", 10, Anchor.MIDDLE, MUTED, halo=False))
    for count in sorted({most // 16, most // 4} - {0, 1}):
        at = left + 10 + _share(count, most) * steps * wide
        shapes.append(Words((at, top + tall + 8), str(count), 10, Anchor.MIDDLE, MUTED, halo=False))
    words = f"{most} samples of one kind; an empty place: none"
    shapes.append(Words((left + 18 + steps * wide, middle), words, 10, Anchor.START, MUTED, halo=False))
    return shapes


def _share(count: int, most: int) -> float:
    """Position of a count on the scale, which is nonlinear so that 1 and 50 of 1000 samples look different."""
    return math.sqrt(count / most)


def _gap(grid: _Grid) -> float:
    return 1.0 if grid.wide >= 10 else 0.25
