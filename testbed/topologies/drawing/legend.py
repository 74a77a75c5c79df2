"""The column beside a picture that says what its shapes, colours and lines mean.

Takes what the picture contains, gives shapes and the height they need; touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from testbed.topologies.drawing.palette import (
    BRIDGE,
    BUBBLE,
    CATEGORIES,
    FAINT,
    INK,
    MUTED,
    NEUTRAL,
    PAPER,
    STRAGGLER,
    ramp,
)
from testbed.topologies.drawing.shapes import Anchor, Disc, Point, Polygon, Shape, Stroke, Words, text_width
from testbed.topologies.drawing.strokes import PLAIN, Pen, arc, arrow_head, loss_mark
from testbed.topologies.drawing.style import Colour
from testbed.topologies.drawing.wording import latency, percent, rate

WIDTH = 262.0
_SYMBOL = 30.0
_ROW = 21.0
_SIZE = 11.5

Symbol = Callable[[Point], list[Shape]]


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """One line: a symbol and what it means. Without a symbol it is a remark; `heading` starts a section."""

    words: str
    symbol: Symbol | None = None
    heading: bool = False


def legend(
    left: float, top: float, entries: Sequence[LegendEntry], pen: Pen, with_bar: bool
) -> tuple[list[Shape], float]:
    """The column's shapes, and where it ends."""
    shapes: list[Shape] = []
    y = top
    for entry in entries:
        if entry.heading:
            y += 10 if y > top else 0
            shapes.append(Words((left, y), entry.words, 12, bold=True, halo=False, role="legend"))
            y += _ROW
            continue
        indent = _SYMBOL if entry.symbol else 0.0
        if entry.symbol:
            shapes.extend(entry.symbol((left + 10, y)))
        for line in wrapped(entry.words, WIDTH - indent, _SIZE):
            colour = INK if entry.symbol else MUTED
            shapes.append(Words((left + indent, y), line, _SIZE, colour=colour, halo=False, role="legend"))
            y += _ROW - 5
        y += 5
    if with_bar:
        y += 6
        shapes.extend(_bar(left, y, pen))
        y += 52
    return shapes, y


def wrapped(text: str, width: float, size: float) -> list[str]:
    """The text in lines that fit; a word that does not is cut."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        rest = word
        while text_width(rest, size) > width:
            fits = max(1, int(len(rest) * width / text_width(rest, size)) - 1)
            lines.append(f"{line} {rest[:fits]}".strip())
            line, rest = "", rest[fits:]
        if line and text_width(f"{line} {rest}", size) > width:
            lines.append(line)
            line = rest
        else:
            line = f"{line} {rest}".strip()
    return [*lines, line] if line or not lines else lines


def _bar(left: float, top: float, pen: Pen) -> list[Shape]:
    """The colours of links from best to worst, with the values at both ends and in the middle."""
    titles = {
        Colour.LATENCY: "link colour: latency, one way",
        Colour.RATE: "link colour: rate",
        Colour.LOSS: "link colour: packet loss",
    }
    say = {Colour.LATENCY: latency, Colour.RATE: rate, Colour.LOSS: percent}[pen.colour]
    steps, wide, tall = 40, WIDTH - 40, 11.0
    shapes: list[Shape] = [Words((left, top), titles[pen.colour], _SIZE, halo=False, role="legend")]
    y = top + 12
    for step in range(steps):
        x, reach = left + wide * step / steps, wide / steps + (0.6 if step < steps - 1 else 0.0)
        corners = ((x, y), (x + reach, y), (x + reach, y + tall), (x, y + tall))
        shapes.append(Polygon(corners, pen.tint((step + 0.5) / steps), role="bar"))
    for share, anchor in ((0.0, Anchor.START), (0.5, Anchor.MIDDLE), (1.0, Anchor.END)):
        at = (left + wide * share, y + tall + 11)
        words = say(pen.scale.value(share))
        shapes.append(Words(at, words, 10.5, anchor, MUTED, halo=False, role="legend"))
    return shapes


def bridge_symbol(at: Point) -> list[Shape]:
    return [square(at, 6.0)]


def square(at: Point, half: float, dashed: bool = False, tip: str = "") -> Polygon:
    """A bridge; hollow when events take it down."""
    x, y = at
    corners = ((x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half))
    return Polygon(corners, PAPER if dashed else BRIDGE, BRIDGE, 1.8, dashed, tip, role="bridge")


def hollow_bridge_symbol(at: Point) -> list[Shape]:
    return [square(at, 6.0, dashed=True)]


def triangle(at: Point, size: float, hollow: bool, tip: str = "") -> Polygon:
    """A node that is slower than the others: another form, not only another colour."""
    x, y = at
    corners = ((x, y - size * 1.3), (x + size * 1.2, y + size * 0.85), (x - size * 1.2, y + size * 0.85))
    return Polygon(corners, PAPER if hollow else STRAGGLER, STRAGGLER, 1.6, tip=tip, role="straggler")


def node_symbol(colour: str, slow: bool) -> Symbol:
    def drawn(at: Point) -> list[Shape]:
        return [triangle(at, 6.0, hollow=False)] if slow else [Disc(at, 5.5, colour, PAPER, role="node")]

    return drawn


def eventful_symbol(at: Point) -> list[Shape]:
    return [Disc(at, 5.0, PAPER, PLAIN, 2.2, role="node")]


def shared_symbol(at: Point) -> list[Shape]:
    x, y = at
    return [
        *arc((x - 12, y), 12.0, -0.7, 0.7, INK, 2.6),
        Stroke((x, y), (x - 10, y), INK, 2.0, role="shared"),
        Disc((x + 8, y - 6), 3.2, PLAIN, role="node"),
        Disc((x + 8, y + 6), 3.2, PLAIN, role="node"),
    ]


def dashed_symbol(at: Point) -> list[Shape]:
    return [Stroke((at[0] - 10, at[1]), (at[0] + 12, at[1]), PLAIN, 2.0, dashed=True)]


def one_way_symbol(at: Point) -> list[Shape]:
    end = (at[0] + 12, at[1])
    return [Stroke((at[0] - 10, at[1]), (at[0] + 5, at[1]), PLAIN, 2.0), arrow_head(at, end, 9.0, PLAIN)]


def width_symbol(at: Point) -> list[Shape]:
    """A line that gets thicker."""
    x, y = at
    return [Polygon(((x - 10, y - 0.5), (x + 12, y - 2.6), (x + 12, y + 2.6), (x - 10, y + 0.5)), PLAIN)]


def neutral_symbol(at: Point) -> list[Shape]:
    return [Stroke((at[0] - 10, at[1]), (at[0] + 12, at[1]), NEUTRAL, 1.3)]


def rim_symbol(at: Point) -> list[Shape]:
    return [Disc(at, 6.5, ramp(0.7), role="rim"), Disc(at, 4.4, CATEGORIES[0], PAPER, 0.8, role="node")]


def loss_symbol(at: Point) -> list[Shape]:
    return [Stroke((at[0] - 10, at[1]), (at[0] + 12, at[1]), PLAIN, 1.6), loss_mark((at[0] + 1, at[1]))]


def bubble_symbol(at: Point) -> list[Shape]:
    return [Disc(at, 8.0, BUBBLE, FAINT)]


def inner_symbol(at: Point) -> list[Shape]:
    return [Disc(at, 8.0, BUBBLE, PLAIN, 2.0, role="inner")]
