"""Draws the access links of a place: as lines, as a bracket for a shared one, or as the rims of its nodes.

Takes a `Stage` and a `Pen`, adds shapes to a canvas; touches nothing else. Access links that differ in colour's or
width's quantity are on the picture's scales like all other links. Those that are all alike are neutral, and the legend
gives their properties.
"""

from __future__ import annotations

import math

from testbed.topologies.drawing.canvas import Canvas
from testbed.topologies.drawing.cluster import Cluster, Spot, polar
from testbed.topologies.drawing.grouping import Tie
from testbed.topologies.drawing.palette import INK, NEUTRAL
from testbed.topologies.drawing.shapes import Disc, Point
from testbed.topologies.drawing.stage import Stage
from testbed.topologies.drawing.strokes import Course, Pen, arc, loss_mark, stroke
from testbed.topologies.drawing.wording import tie_tip

_SHARED_WIDTH = 2.4
_THINNEST = 0.8


def split_access(stage: Stage) -> tuple[tuple[Tie, ...], tuple[Tie, ...]]:
    """The access links that are drawn as lines, and those for which there is no room."""
    lines: list[Tie] = []
    others: list[Tie] = []
    for place, shape in zip(stage.standing, stage.clusters, strict=True):
        if stage.anatomy.is_bridge(place):
            for group in stage.groups_at(place):
                tie = stage.anatomy.ties_of[group][0]
                (lines if _has_line(tie, group, shape) else others).append(tie)
    return tuple(lines), tuple(others)


def _has_line(tie: Tie, group: int, shape: Cluster) -> bool:
    return shape.rings == 1 or (shape.rings > 1 and tie.shared_at(group))


def draw_access(canvas: Canvas, stage: Stage, centre: Point, shape: Cluster, groups: tuple[int, ...], pen: Pen) -> None:
    """Lines from a bridge to its nodes; where there is no room for them, their colours as rims behind the nodes."""
    for at, group in enumerate(groups):
        tie = stage.anatomy.ties_of[group][0]
        spots = [spot for spot in shape.spots if spot.group == at]
        if _has_line(tie, group, shape):
            _draw_lines(canvas, stage, centre, shape, at, group, spots, pen)
        elif pen.access_coloured:
            _draw_rims(canvas, centre, spots, pen.colour_of(tie))


def _draw_lines(
    canvas: Canvas, stage: Stage, centre: Point, shape: Cluster, at: int, group: int, spots: list[Spot], pen: Pen
) -> None:
    tie = stage.anatomy.ties_of[group][0]
    shared = tie.shared_at(group)
    width = _SHARED_WIDTH if shared else 1.3 if stage.measure.dot > 4 else _THINNEST
    colour = INK if shared else NEUTRAL
    if pen.access_widened:
        width = max(pen.width_of(tie), _THINNEST)
    if pen.access_coloured:
        colour = pen.colour_of(tie)
    tip = tie_tip(stage.anatomy, tie)
    ends = [(spot.offset, spot.radius) for spot in spots]
    if shared:
        sector, bracket = shape.sectors[at], shape.first_ring - stage.measure.dot * 1.7
        spread = 0.5 * stage.measure.spacing / max(shape.first_ring, 1.0)
        start, end = sector.start - spread, sector.end + spread
        if end - start > 2 * math.pi - 0.2:
            end = start + 2 * math.pi
        canvas.bodies.extend(arc(centre, bracket, start, end, colour, _SHARED_WIDTH))
        ends = [(polar(sector.middle, bracket), 0.0)]
    for offset, clearance in ends:
        way = _spoke(stage, centre, offset, clearance, outward=tie.second == group)
        canvas.bodies.extend(stroke(tie, way, colour, width, tip))
        if pen.marks_loss(tie, pen.access_coloured) and stage.measure.dot > 4:
            canvas.bodies.append(loss_mark(way.at(0.55), 3.6, tip))


def _spoke(stage: Stage, centre: Point, offset: Point, clearance: float, outward: bool) -> Course:
    length = max(math.hypot(*offset), 1e-9)
    near, far = stage.measure.hub * 1.1 / length, 1 - (clearance + 1) / length
    hub_end = (centre[0] + offset[0] * near, centre[1] + offset[1] * near)
    node_end = (centre[0] + offset[0] * far, centre[1] + offset[1] * far)
    return Course(hub_end, node_end) if outward else Course(node_end, hub_end)


def _draw_rims(canvas: Canvas, centre: Point, spots: list[Spot], colour: str) -> None:
    for spot in spots:
        at = (centre[0] + spot.offset[0], centre[1] + spot.offset[1])
        canvas.bodies.append(Disc(at, spot.radius * 1.22 + 1.2, colour, role="rim"))
