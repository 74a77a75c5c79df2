"""A picture under construction: its shapes by layer, and the occupied area.

Takes shapes, gives them back in painting order; touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.topologies.drawing.shapes import Box, Shape, Words
from testbed.topologies.drawing.strokes import Course


@dataclass
class Canvas:
    """The shapes so far, by layer, and the occupied boxes."""

    lines: list[Shape] = field(default_factory=list)
    marks: list[Shape] = field(default_factory=list)
    bodies: list[Shape] = field(default_factory=list)
    backs: list[Shape] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)
    taken: list[Box] = field(default_factory=list)
    courses: list[Course] = field(default_factory=list)

    def shapes(self) -> list[Shape]:
        return [*self.lines, *self.marks, *self.bodies, *self.backs, *self.words]
