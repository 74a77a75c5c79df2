"""Paints a picture as SVG: plain text that any browser, editor or paper takes, with a tooltip on every part.

Takes a `Picture`, gives text; touches nothing. No scripts, no references to anything outside, no time stamps.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from testbed.topologies.drawing.palette import PAPER
from testbed.topologies.drawing.shapes import Anchor, Disc, Picture, Point, Polygon, Shape, Stroke, Words

FONTS = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"


def svg(picture: Picture) -> str:
    """A whole SVG file."""
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + svg_element(picture)


def svg_element(picture: Picture) -> str:
    """Only the element, to stand in an HTML page."""
    wide, tall = _number(picture.width), _number(picture.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{tall}" viewBox="0 0 {wide} {tall}" '
        f'role="img" aria-label={_quoted(f"{picture.title}: {picture.description}")} font-family={_quoted(FONTS)}>',
        f"<title>{_text(picture.title)}</title>",
        f'<rect width="{wide}" height="{tall}" fill="{PAPER}"/>',
        *(_element(shape) for shape in picture.shapes),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _element(shape: Shape) -> str:
    if isinstance(shape, Words):
        return _words(shape)
    if isinstance(shape, Disc):
        (x, y), radius = shape.centre, _number(shape.radius)
        name, geometry = "circle", f'cx="{_number(x)}" cy="{_number(y)}" r="{radius}"'
    elif isinstance(shape, Polygon):
        name, geometry = "polygon", f'points="{" ".join(_point(point) for point in shape.points)}"'
    else:
        return _stroke(shape)
    edge = f' stroke="{shape.edge}" stroke-width="{_number(shape.width)}"' if shape.edge else ""
    dashes = ' stroke-dasharray="3 2.5"' if shape.dashed else ""
    return _tipped(name, f'class="{shape.role}" {geometry} fill="{shape.fill}"{edge}{dashes}', shape.tip)


def _stroke(shape: Stroke) -> str:
    if shape.bend:
        way = f"M{_point(shape.start)} Q{_point(shape.bend)} {_point(shape.end)}"
    else:
        way = f"M{_point(shape.start)} L{_point(shape.end)}"
    opacity = f' stroke-opacity="{_number(shape.opacity)}"' if shape.opacity < 1 else ""
    ends = f'stroke-dasharray="{_dashes(shape.width)}"' if shape.dashed else 'stroke-linecap="round"'
    look = f'stroke="{shape.colour}" stroke-width="{_number(shape.width)}"{opacity} {ends}'
    return _tipped("path", f'class="{shape.role}" d="{way}" fill="none" {look}', shape.tip)


def _dashes(width: float) -> str:
    return f"{_number(4 + 2 * width)} {_number(3 + width)}"


def _words(shape: Words) -> str:
    x, y = shape.at
    anchor = "" if shape.anchor is Anchor.START else f' text-anchor="{shape.anchor}"'
    weight = ' font-weight="bold"' if shape.bold else ""
    halo = f' paint-order="stroke" stroke="{PAPER}" stroke-width="3.2" stroke-linejoin="round"' if shape.halo else ""
    baseline = y + shape.size * 0.36  # not every reader knows dominant-baseline
    inner = _text(shape.text) if not shape.tip else f"{_text(shape.text)}<title>{_text(shape.tip)}</title>"
    return (
        f'<text class="{shape.role}" x="{_number(x)}" y="{_number(baseline)}" font-size="{_number(shape.size)}" '
        f'fill="{shape.colour}"{anchor}{weight}{halo}>{inner}</text>'
    )


def _tipped(name: str, attributes: str, tip: str) -> str:
    return f"<{name} {attributes}><title>{_text(tip)}</title></{name}>" if tip else f"<{name} {attributes}/>"


def _text(text: str) -> str:
    """Text as XML holds it: what XML 1.0 forbids is replaced, line ends stay."""
    return escape("".join(_allowed(text)))


def _quoted(text: str) -> str:
    return quoteattr("".join(_allowed(text)))


def _allowed(text: str) -> Iterable[str]:
    return (char if char == "\n" or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _point(point: Point) -> str:
    return f"{_number(point[0])},{_number(point[1])}"


def _number(value: float) -> str:
    """At most two decimals: a hundredth of a pixel is enough."""
    return f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")
