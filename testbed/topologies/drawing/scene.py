"""Composes a picture: from a topology to the shapes that painters paint.

Takes a `Topology` and a `Style`, gives a `Picture`; touches nothing. The order is: lines, bubbles, nodes, words.
"""

from __future__ import annotations

import math
from functools import reduce

from testbed.topologies.drawing.access import draw_access, split_access
from testbed.topologies.drawing.canvas import Canvas
from testbed.topologies.drawing.cluster import Cluster, Spot
from testbed.topologies.drawing.grouping import Anatomy, Tie, anatomy
from testbed.topologies.drawing.labels import draw_caption, draw_label
from testbed.topologies.drawing.legend import WIDTH as LEGEND_WIDTH
from testbed.topologies.drawing.legend import LegendEntry, legend, square, triangle
from testbed.topologies.drawing.legend_entries import entries
from testbed.topologies.drawing.node_kinds import NodeKind, node_kinds
from testbed.topologies.drawing.palette import BUBBLE, FAINT, INK, MUTED, PAPER
from testbed.topologies.drawing.shapes import (
    Anchor,
    Box,
    Disc,
    Picture,
    Point,
    Shape,
    Words,
    bounds,
    box_of,
    moved,
    scaled,
    text_width,
)
from testbed.topologies.drawing.stage import (
    Stage,
    sector_names,
    set_stage,
)
from testbed.topologies.drawing.strokes import PLAIN, Course, Pen, arc, course, loss_mark, stroke, worst_loss
from testbed.topologies.drawing.style import Labels, Style
from testbed.topologies.drawing.wording import clean, short, tie_tip
from testbed.topologies.model import Topology

MOST_LINES = 20_000
"""More backbone links than this are drawn as an evenly chosen part of them, and the legend says so."""
_DETOURS_UP_TO = 40_000
"""Pairs of a link and a place that are looked at for lines crossing places."""
_MARGIN = 36.0
_TOP = 96.0
_LEAST_WIDTH = 460.0
_LEAST_HEIGHT = 300.0
_LARGEST = 1900.0
"""A larger drawing is scaled down, so that title and legend stay readable beside it."""


def compose(topology: Topology, style: Style | None = None) -> Picture:
    """The picture of a topology."""
    chosen = style or Style()
    parts = anatomy(topology)
    stage = set_stage(parts, chosen)
    kinds, kind_of = node_kinds(parts)
    spokes, rims = split_access(stage)
    pen = Pen.of(parts.backbone, spokes, rims, chosen.colour)
    canvas = Canvas()
    drawn = _thinned(parts.backbone)
    ways = _courses(stage, drawn)
    for place, centre, shape in zip(stage.standing, stage.centres, stage.clusters, strict=True):
        _draw_cluster(canvas, stage, place, centre, shape, kind_of, pen)
    for place, centre, shape in zip(stage.standing, stage.centres, stage.clusters, strict=True):
        canvas.taken.append(_around(centre, shape.radius))
        for name in sector_names(stage, place, centre, shape):
            canvas.words.extend(name.lines)
            canvas.lines.extend([name.leader] if name.leader else [])
    canvas.taken.extend(box_of(words) for words in canvas.words)
    canvas.courses.extend(ways)
    if stage.names:
        for place, centre, shape in zip(stage.standing, stage.centres, stage.clusters, strict=True):
            draw_caption(canvas, stage, place, centre, shape)
    left_out = _draw_backbone(canvas, stage, drawn, ways, pen, chosen)
    notes = _notes(parts, len(drawn), left_out)
    roles = {shape.role for shape in canvas.shapes()}
    rows = entries(topology, stage, kinds, pen, (*drawn, *spokes), roles, notes)
    return _framed(topology, parts, canvas, rows, pen)


def _thinned(ties: tuple[Tie, ...]) -> tuple[Tie, ...]:
    if len(ties) <= MOST_LINES:
        return ties
    return tuple(ties[at * len(ties) // MOST_LINES] for at in range(MOST_LINES))


def _courses(stage: Stage, ties: tuple[Tie, ...]) -> list[Course]:
    index = {place: at for at, place in enumerate(stage.standing)}
    radii = [shape.radius for shape in stage.clusters]
    obstacles = range(len(radii)) if len(ties) * len(radii) <= _DETOURS_UP_TO else ()
    return [course((index[tie.first], index[tie.second]), stage.centres, radii, obstacles) for tie in ties]


def _around(centre: Point, radius: float) -> Box:
    return Box(centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius)


def _draw_cluster(
    canvas: Canvas,
    stage: Stage,
    place: int,
    centre: Point,
    shape: Cluster,
    kind_of: dict[int, NodeKind],
    pen: Pen,
) -> None:
    """The bubble, the access links, the bridge and the nodes of one place."""
    parts = stage.anatomy
    groups = stage.groups_at(place)
    if place in parts.inner or len(shape.spots) > (0 if parts.is_bridge(place) and shape.rings else 1):
        rim, width = (PLAIN, 2.2) if place in parts.inner else (FAINT, 1.0)
        canvas.bodies.append(
            Disc(centre, shape.radius, BUBBLE, rim, width, tip=_place_tip(parts, place, groups), role="bubble")
        )
    if parts.is_bridge(place):
        draw_access(canvas, stage, centre, shape, groups, pen)
        tip = f"bridge {clean(parts.bridges[place])}"
        hollow = parts.bridges[place] in parts.eventful_bridges
        canvas.bodies.append(square(centre, stage.measure.hub * 0.8, hollow, tip))
    for spot in shape.spots:
        _draw_spot(canvas, stage, groups[spot.group], centre, spot, kind_of[groups[spot.group]])


def _place_tip(parts: Anatomy, place: int, groups: tuple[int, ...]) -> str:
    lines = [f"bridge {clean(parts.bridges[place])}"] if parts.is_bridge(place) else []
    lines.extend(clean(parts.group(group).title) for group in groups[:12])
    if len(groups) > 12:
        lines.append(f"and {len(groups) - 12} more")
    return "\n".join(lines)


def _draw_spot(canvas: Canvas, stage: Stage, place: int, centre: Point, spot: Spot, kind: NodeKind) -> None:
    parts = stage.anatomy
    group = parts.group(place)
    nodes = group.nodes if spot.member is None else (group.nodes[spot.member],)
    hollow = any(node.rank in parts.eventful_ranks for node in nodes)
    at = (centre[0] + spot.offset[0], centre[1] + spot.offset[1])
    title = clean(group.title if spot.member is None else nodes[0].name)
    tip = f"{title}: {kind.words}" + (", slow" if kind.slow else "") + (", has events" if hollow else "")
    if kind.slow and spot.member is not None:
        canvas.bodies.append(triangle(at, spot.radius, hollow, tip))
    else:
        fill, edge = (PAPER, kind.colour) if hollow else (kind.colour, PAPER)
        canvas.bodies.append(Disc(at, spot.radius, fill, edge, 2.2 if hollow else 0.8, tip=tip, role="node"))
    colour = kind.colour if hollow else PAPER
    if spot.member is None:
        words = f"×{len(nodes)}"
        size = min(11.0, 2.6 * spot.radius / len(words))
        canvas.words.append(Words(at, words, size, Anchor.MIDDLE, colour, True, False, tip, role="number"))
    elif stage.numbers and group.service.replicas > 1 and spot.radius >= 9:
        lower = (at[0], at[1] + (spot.radius * 0.2 if kind.slow else 0.0))
        text = str(nodes[0].replica)
        canvas.words.append(
            Words(lower, text, spot.radius * 0.92, Anchor.MIDDLE, colour, True, False, tip, role="number")
        )


def _draw_backbone(
    canvas: Canvas, stage: Stage, ties: tuple[Tie, ...], ways: list[Course], pen: Pen, style: Style
) -> int:
    """Lines, loss marks and labels between places; says how many labels found no room."""
    opacity = 1.0 if len(ties) <= 120 else 0.75 if len(ties) <= 2000 else 0.3
    left_out = 0
    marks: list[Box] = []
    for tie, way in zip(ties, ways, strict=True):
        tip = tie_tip(stage.anatomy, tie)
        canvas.lines.extend(stroke(tie, way, pen.colour_of(tie), pen.width_of(tie), tip, opacity))
        canvas.lines.extend(_shared_marks(stage, tie, way))
        labelled = stage.link_labels and draw_label(canvas, stage, tie, way, tip, style.labels is Labels.ALL)
        left_out += stage.link_labels and not labelled
        hidden = worst_loss(tie) > max(lane.properties.loss for lane in tie.leading)
        if pen.marks_loss(tie, coloured=True) and (hidden or not labelled):
            label = canvas.taken[-1] if labelled else None
            size = 4.4 if len(ties) <= 120 else 2.6
            canvas.marks.append(_loss_mark_at(way, marks, canvas.taken, label, size, tip))
    return left_out


def _loss_mark_at(way: Course, marks: list[Box], taken: list[Box], label: Box | None, size: float, tip: str) -> Shape:
    """The diamond at the middle of a line, or aside when something is there; above a label that covers all the line."""
    for share in (0.5, 0.44, 0.56, 0.38, 0.62, 0.32, 0.68, 0.24, 0.76, 0.16, 0.84, 0.1, 0.9):
        frame = _around(way.at(share), size)
        if len(marks) > 400 or not any(frame.overlap(other) for other in (*marks, *taken)):
            marks.append(frame)
            return loss_mark(way.at(share), size, tip)
    return loss_mark(((label.left + label.right) / 2, label.top - size - 3) if label else way.at(0.5), size, tip)


def _shared_marks(stage: Stage, tie: Tie, way: Course) -> list[Shape]:
    """A bracket where the nodes of a place that stands on its own share one access link."""
    marks: list[Shape] = []
    for place, end in ((tie.first, way.start), (tie.second, way.end)):
        if tie.shared_at(place):
            at = stage.standing.index(place)
            centre, radius = stage.centres[at], stage.clusters[at].radius + 4
            angle = math.atan2(end[1] - centre[1], end[0] - centre[0])
            marks.extend(arc(centre, radius, angle - 0.5, angle + 0.5, INK, 2.6))
    return marks


def _notes(parts: Anatomy, drawn: int, left_out: int) -> list[str]:
    notes = []
    if drawn < len(parts.backbone):
        notes.append(f"only {drawn} of {len(parts.backbone)} links between places are drawn, evenly chosen")
    if parts.pieces > 1:
        notes.append(f"{parts.pieces} parts that no link connects")
    if left_out:
        notes.append(f"{left_out} link label{'s' if left_out > 1 else ''} left out for lack of room")
    if parts.supervisors:
        more = f" and {len(parts.supervisors) - 3} more" if len(parts.supervisors) > 3 else ""
        notes.append(f"not drawn: supervisor {', '.join(short(name) for name in parts.supervisors[:3])}{more}")
    return notes


def _framed(topology: Topology, parts: Anatomy, canvas: Canvas, rows: list[LegendEntry], pen: Pen) -> Picture:
    """The drawing with title and legend around it."""
    title = short(topology.name, 60) or "topology"
    subtitle = counts(topology, parts)
    shapes = canvas.shapes()
    frame = _frame(shapes)
    shrink = min(1.0, _LARGEST / max(frame.right - frame.left, frame.bottom - frame.top))
    if shrink < 1:
        shapes = [scaled(shape, shrink) for shape in shapes]
        frame = _frame(shapes)
    wide, tall = frame.right - frame.left, frame.bottom - frame.top
    room = max(wide, _LEAST_WIDTH, text_width(subtitle, 12.5) - LEGEND_WIDTH)
    legend_left = 2 * _MARGIN + room
    legend_shapes, legend_end = legend(legend_left, _TOP, rows, pen, with_bar=bool(parts.ties) and not pen.scale.flat)
    height = max(_TOP + max(tall, _LEAST_HEIGHT), legend_end) + _MARGIN
    by = (
        _MARGIN + (room - wide) / 2 - frame.left,
        _TOP + (height - _TOP - _MARGIN - tall) / 2 - frame.top,
    )
    heading = [
        Words((_MARGIN, 38), title, 21, bold=True, halo=False, role="title"),
        Words((_MARGIN, 63), subtitle, 12.5, colour=MUTED, halo=False, role="subtitle"),
    ]
    if not topology.nodes and not topology.bridges:
        heading.append(Words((_MARGIN, 110), "nothing to draw", 13, colour=MUTED, halo=False, role="note"))
    return Picture(
        width=math.ceil(legend_left + LEGEND_WIDTH + _MARGIN),
        height=math.ceil(height),
        title=title,
        description=subtitle,
        shapes=(*heading, *(moved(shape, by) for shape in shapes), *legend_shapes),
    )


def _frame(shapes: list[Shape]) -> Box:
    return reduce(Box.union, (bounds(shape) for shape in shapes)) if shapes else Box(0, 0, 1, 1)


def counts(topology: Topology, parts: Anatomy) -> str:
    """`256 nodes · 10 services · 10 bridges · 602 directed links`."""
    numbers = (
        (len(topology.nodes), "node"),
        (len(topology.services) - len(parts.supervisors), "service"),
        (len(parts.bridges), "bridge"),
        (parts.directed_links, "directed link"),
    )
    return " · ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in numbers)
