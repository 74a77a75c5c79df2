"""Draws a topology: SVG, PNG, one HTML page, Graphviz or Mermaid text.

Takes a `Topology`, gives bytes; touches nothing. Equal topologies give equal bytes.

    Topology ─ grouping ─> Anatomy ─ stage (cluster, layout) ─> Stage ─ scene (strokes, legend) ─> Picture ─ svg, png
                              └─ text_graphs ─> .dot, .mmd                                          └─ html

The modules of a format are imported on demand: only PNG needs matplotlib.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from testbed.topologies.drawing.style import Colour, Labels, Style

if TYPE_CHECKING:
    from testbed.topologies.model import Topology

__all__ = ["Colour", "Labels", "PictureFormat", "Style", "draw"]


class PictureFormat(StrEnum):
    """Format of a drawing; the value is the ending of its file."""

    SVG = "svg"
    PNG = "png"
    HTML = "html"
    DOT = "dot"
    MERMAID = "mmd"


def draw(topology: Topology, kind: PictureFormat, style: Style | None = None) -> bytes:
    """The contents of a file in this format; text is UTF-8."""
    match kind:
        case PictureFormat.PNG:
            from testbed.topologies.drawing.png import png
            from testbed.topologies.drawing.scene import compose

            return png(compose(topology, style))
        case PictureFormat.SVG:
            from testbed.topologies.drawing.scene import compose
            from testbed.topologies.drawing.svg import svg

            return svg(compose(topology, style)).encode()
        case PictureFormat.HTML:
            from testbed.topologies.drawing.html import html

            return html(topology, style).encode()
        case PictureFormat.DOT:
            from testbed.topologies.drawing.text_graphs import dot

            return dot(topology, style).encode()
        case PictureFormat.MERMAID:
            from testbed.topologies.drawing.text_graphs import mermaid

            return mermaid(topology, style).encode()
