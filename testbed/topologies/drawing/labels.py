"""Writes names and link properties into a picture, where they cover the least.

Takes a `Canvas` and a `Stage`, adds words to the canvas; touches nothing else.
"""

from __future__ import annotations

from functools import reduce

from testbed.topologies.drawing.canvas import Canvas
from testbed.topologies.drawing.cluster import Cluster
from testbed.topologies.drawing.grouping import Tie
from testbed.topologies.drawing.palette import INK, MUTED, PAPER
from testbed.topologies.drawing.shapes import Anchor, Box, Point, Polygon, Shape, Words, box_of
from testbed.topologies.drawing.stage import LINK_LABEL_SIZE, Stage, group_lines, has_sector_names
from testbed.topologies.drawing.strokes import Course
from testbed.topologies.drawing.wording import lane_text, short


def draw_caption(canvas: Canvas, stage: Stage, place: int, centre: Point, shape: Cluster) -> None:
    """The place's name, and its nodes' where these have no names of their own, on the side with the fewest lines."""
    lines = _caption(stage, place)
    widest = max((box_of(line).right - box_of(line).left for line in lines), default=0.0)
    height = 15.0 * len(lines)
    reach = shape.radius + 5
    candidates = [
        (Anchor.MIDDLE, centre[0], centre[1] + reach + height / 2 + 1),
        (Anchor.MIDDLE, centre[0], centre[1] - reach - height / 2 - 1),
        (Anchor.START, centre[0] + reach + 2, centre[1]),
        (Anchor.END, centre[0] - reach - 2, centre[1]),
        (Anchor.START, centre[0] + reach * 0.75, centre[1] + reach * 0.75 + height / 2),
        (Anchor.END, centre[0] - reach * 0.75, centre[1] + reach * 0.75 + height / 2),
        (Anchor.START, centre[0] + reach * 0.75, centre[1] - reach * 0.75 - height / 2),
        (Anchor.END, centre[0] - reach * 0.75, centre[1] - reach * 0.75 - height / 2),
    ]

    def cost(at: int) -> tuple[float, int]:
        anchor, x, y = candidates[at]
        left = x - {Anchor.START: 0.0, Anchor.MIDDLE: 0.5, Anchor.END: 1.0}[anchor] * widest
        frame = Box(left, y - height / 2, left + widest, y + height / 2)
        crossed = sum(way.meets(frame) for way in canvas.courses) if len(canvas.courses) <= 400 else 0
        return sum(frame.overlap(other) for other in canvas.taken) + 60.0 * crossed, at

    anchor, x, y = candidates[min(range(len(candidates)), key=cost)]
    frames: list[Box] = []
    for at, line in enumerate(lines):
        placed = Words(
            (x, y - height / 2 + 7.5 + 15 * at), line.text, line.size, anchor, line.colour, line.bold, role=line.role
        )
        canvas.words.append(placed)
        frames.append(box_of(placed))
    canvas.taken.extend(frames)
    canvas.backs.extend(_card(frame) for frame in frames if any(way.meets(frame) for way in canvas.courses))


def _card(frame: Box) -> Shape:
    """White behind words that stand on a line."""
    frame = frame.grown(2)
    corners = (
        (frame.left, frame.top),
        (frame.right, frame.top),
        (frame.right, frame.bottom),
        (frame.left, frame.bottom),
    )
    return Polygon(corners, PAPER, role="card")


def _caption(stage: Stage, place: int) -> list[Words]:
    parts, groups = stage.anatomy, stage.groups_at(place)
    size = 12.5 if len(stage.standing) <= 30 else 11.0
    lines: list[Words] = []
    if parts.is_bridge(place):
        lines.append(Words((0, 0), short(parts.bridges[place]), size, bold=True, role="name"))
        if len(groups) > 1 and not has_sector_names(stage, place):
            count = sum(len(parts.group(group).nodes) for group in groups)
            lines.append(Words((0, 0), f"{len(groups)} services, {count} nodes", 11, colour=MUTED, role="note"))
    if len(groups) == 1:
        first, *rest = group_lines(stage, groups[0])
        on_its_own = not parts.is_bridge(place)
        lines.append(Words((0, 0), first, size if on_its_own else 11.5, bold=on_its_own, role="name"))
        lines.extend(Words((0, 0), line, 10.5, colour=MUTED, role="note") for line in rest)
    if place in parts.inner:
        words = f"among themselves: {lane_text(parts.inner[place])}"
        lines.append(Words((0, 0), words, 10.5, colour=MUTED, role="note"))
    return lines


def draw_label(canvas: Canvas, stage: Stage, tie: Tie, way: Course, tip: str, insist: bool) -> bool:
    """The link's properties on its line, where they cover nothing else."""
    texts = _label_texts(stage, tie, way)
    if not texts:
        return True
    height = 13.0
    best: tuple[float, list[Words]] | None = None
    for share in (0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73):
        x, y = way.at(share)
        top = y - height * (len(texts) - 1) / 2
        words = [
            Words((x, top + height * at), text, LINK_LABEL_SIZE, Anchor.MIDDLE, INK, tip=tip, role="label")
            for at, text in enumerate(texts)
        ]
        frame = reduce(Box.union, (box_of(line) for line in words))
        crossed = sum(other.meets(frame) for other in canvas.courses if other is not way)
        covered = sum(frame.overlap(other) for other in canvas.taken)
        if covered > 0 and not insist:
            continue
        cost = covered + 120.0 * crossed + 20.0 * abs(share - 0.5)
        if best is None or cost < best[0]:
            best = (cost, words)
    if best is None:
        return False
    frame = reduce(Box.union, (box_of(line) for line in best[1]))
    canvas.backs.append(_card(frame))
    canvas.words.extend(best[1])
    canvas.taken.append(frame)
    return True


def _label_texts(stage: Stage, tie: Tie, way: Course) -> list[str]:
    """One line for both directions when they are alike, else one for each with an arrow that points along."""
    forward = lane_text(tie.forward, stage.link_facets) if tie.forward else ""
    backward = lane_text(tie.backward, stage.link_facets) if tie.backward else ""
    if tie.one_way or forward == backward:
        return [text for text in (forward or backward,) if text]
    dx, dy = way.end[0] - way.start[0], way.end[1] - way.start[1]
    if abs(dx) >= abs(dy):
        ahead, back = ("→", "←") if dx > 0 else ("←", "→")
    else:
        ahead, back = ("↓", "↑") if dy > 0 else ("↑", "↓")
    return [f"{ahead} {forward}", f"{back} {backward}"]
