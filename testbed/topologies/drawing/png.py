"""Paints a picture as PNG, through matplotlib's object interface.

Takes a `Picture`, gives bytes; touches nothing. matplotlib is imported when the first picture is painted.
Text is drawn as it stands (no mathematics), and nothing in the file says when it was made. What matplotlib's own font
has no letter for, such as Chinese, Japanese and Korean names, becomes a white square: other kinds of picture show it.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from testbed.topologies.drawing.palette import PAPER
from testbed.topologies.drawing.shapes import Anchor, Disc, Picture, Shape, Stroke, Words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ft2font import FT2Font

_POINTS_PER_PIXEL = 0.72
_DOTS_PER_INCH = 100
_SHARPNESS = 2
_FONT = "DejaVu Sans"
_SIDE = {Anchor.START: "left", Anchor.MIDDLE: "center", Anchor.END: "right"}


def png(picture: Picture) -> bytes:
    """A whole PNG file, at twice the screen's resolution."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(picture.width / _DOTS_PER_INCH, picture.height / _DOTS_PER_INCH),
        dpi=_DOTS_PER_INCH * _SHARPNESS,
        facecolor=PAPER,
    )
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, picture.width)
    axes.set_ylim(picture.height, 0)
    glyphs = {bold: _font(bold) for bold in (False, True)}
    for at, shape in enumerate(picture.shapes):
        _paint(axes, shape, at, glyphs)
    target = BytesIO()
    canvas.print_figure(target, format="png", dpi=_DOTS_PER_INCH * _SHARPNESS, metadata={"Software": None})
    return target.getvalue()


def _font(bold: bool) -> FT2Font:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return get_font(findfont(FontProperties(family=_FONT, weight="bold" if bold else "normal")))


def _paint(axes: Axes, shape: Shape, order: int, glyphs: dict[bool, FT2Font]) -> None:
    from matplotlib.patches import Circle, PathPatch
    from matplotlib.patches import Polygon as Corners
    from matplotlib.path import Path

    if isinstance(shape, Words):
        _write(axes, shape, order, glyphs[shape.bold])
        return
    width = shape.width * _POINTS_PER_PIXEL
    if isinstance(shape, Stroke):
        points = [shape.start, shape.bend, shape.end] if shape.bend else [shape.start, shape.end]
        codes = [Path.MOVETO, Path.CURVE3, Path.CURVE3] if shape.bend else [Path.MOVETO, Path.LINETO]
        line = PathPatch(
            Path(points, codes),
            fill=False,
            edgecolor=shape.colour,
            linewidth=width,
            linestyle=(0, (3.5, 2.5)) if shape.dashed else "solid",
            capstyle="butt" if shape.dashed else "round",
            alpha=shape.opacity,
            zorder=order,
        )
        axes.add_patch(line)
        return
    body = (
        Circle(shape.centre, shape.radius)
        if isinstance(shape, Disc)
        else Corners(np.asarray(shape.points), closed=True)
    )
    body.set_facecolor(shape.fill)
    body.set_edgecolor(shape.edge or "none")
    body.set_linewidth(width if shape.edge else 0)
    body.set_linestyle((0, (2.2, 1.6)) if shape.dashed else "solid")
    body.set_zorder(order)
    axes.add_patch(body)


def _write(axes: Axes, words: Words, order: int, font: FT2Font) -> None:
    from matplotlib.patheffects import withStroke

    text = axes.text(
        *words.at,
        "".join(char if font.get_char_index(ord(char)) else "\N{WHITE SQUARE}" for char in words.text),
        fontsize=words.size * _POINTS_PER_PIXEL,
        fontfamily=_FONT,
        fontweight="bold" if words.bold else "normal",
        color=words.colour,
        horizontalalignment=_SIDE[words.anchor],
        verticalalignment="center_baseline",
        parse_math=False,
        zorder=order,
    )
    if words.halo:
        text.set_path_effects([withStroke(linewidth=2.6, foreground=PAPER)])
