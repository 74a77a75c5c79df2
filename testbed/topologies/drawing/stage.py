"""The stage of a picture: how large everything is at this size of network, and where every cluster stands.

Takes an `Anatomy` and a `Style`, gives a `Stage`; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from testbed.topologies.drawing.cluster import Cluster, Measure, cluster, polar
from testbed.topologies.drawing.grouping import Anatomy, Lane, Tie
from testbed.topologies.drawing.layout import arrange
from testbed.topologies.drawing.palette import FAINT, INK, MUTED
from testbed.topologies.drawing.shapes import Anchor, Box, Point, Stroke, Words, box_of, text_width
from testbed.topologies.drawing.style import Labels, Style
from testbed.topologies.drawing.wording import Facets, differing, lane_text, rate, short

_LABELLED_PLACES = 60
_LABELLED_GROUPS = 48
_LABELLED_LINKS = 26
_DESCRIBED_GROUPS = 24
_ALWAYS_DESCRIBED_LINKS = 3
LINK_LABEL_SIZE = 10.5
_WIDEST = 1.8
_TIERS = 10
"""How many steps a name may move outwards to find room."""
_SHORTEST = 0.24
"""No link is drawn shorter than this part of the longest one."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that is decided before the first shape is drawn."""

    anatomy: Anatomy
    measure: Measure
    standing: tuple[int, ...]
    """The places that stand on their own, in the order of `centres`."""
    centres: tuple[Point, ...]
    clusters: tuple[Cluster, ...]
    names: bool
    """Whether places and groups have their names beside them."""
    numbers: bool
    """Whether every node carries its replica number."""
    link_labels: bool
    link_facets: Facets
    access_facets: Facets

    def groups_at(self, place: int) -> tuple[int, ...]:
        """The groups drawn at a place: its residents, or itself."""
        if self.anatomy.is_bridge(place):
            return self.anatomy.residents.get(place, ())
        return (place,)


def set_stage(anatomy: Anatomy, style: Style) -> Stage:
    """Sizes and positions for a whole picture."""
    standing = tuple(place for place in anatomy.places if place not in anatomy.home)
    nodes = sum(len(group.nodes) for group in anatomy.groups)
    backbone = anatomy.backbone
    everything, nothing = style.labels is Labels.ALL, style.labels is Labels.NONE
    names = everything or (len(standing) <= _LABELLED_PLACES and len(anatomy.groups) <= 4 * _LABELLED_GROUPS)
    link_facets = _facets(backbone)
    bare = Stage(
        anatomy=anatomy,
        measure=_measure(nodes, len(standing)),
        standing=standing,
        centres=(),
        clusters=(),
        names=names,
        numbers=not nothing and (everything or nodes <= 40),
        link_labels=not nothing
        and link_facets.any
        and (everything or (len(backbone) <= _LABELLED_LINKS and len(standing) <= _LABELLED_PLACES)),
        link_facets=link_facets,
        access_facets=_facets(anatomy.access, always=0) if len(anatomy.groups) <= _DESCRIBED_GROUPS else _SILENT,
    )
    return _placed(bare)


_SILENT = Facets(latency=False, rate=False, loss=False, jitter=False, background=False)


def _facets(ties: Sequence[Tie], always: int = _ALWAYS_DESCRIBED_LINKS) -> Facets:
    """What labels mention: everything when links are few, else only what is not the same everywhere."""
    return Facets() if 0 < len(ties) <= always else differing(lane for tie in ties for lane in tie.lanes)


def _measure(nodes: int, places: int) -> Measure:
    """Sizes for a number of nodes and places: the more there are, the smaller."""
    hub = 9.0 if places <= 12 else 7.0 if places <= 120 else 4.5
    if nodes <= 40 and places <= 40:
        dot, spacing, one_ring = (12.0, 42.0, 40) if places <= 3 else (9.5, 30.0, 40)
    elif nodes <= 110 and places <= 3:
        dot, spacing, one_ring = 6.5, 17.0, 110
    elif nodes <= 320:
        dot, spacing, one_ring = 5.0, 12.5, 14
    elif nodes <= 1400:
        dot, spacing, one_ring = 3.8, 9.5, 8
    else:
        dot, spacing, one_ring = 3.0, 7.5, 6
    return Measure(dot, hub, spacing, one_ring, dots_up_to=400, tiny=places > 400)


def _placed(stage: Stage) -> Stage:
    anatomy = stage.anatomy
    widened = [_widened(stage, place) for place in stage.standing]
    shapes = [_cluster(stage, place, -math.pi / 2, wide) for place, wide in zip(stage.standing, widened, strict=True)]
    radii = [
        shape.radius + _label_room(stage, place, wide)
        for place, shape, wide in zip(stage.standing, shapes, widened, strict=True)
    ]
    index = {place: at for at, place in enumerate(stage.standing)}
    longest = max((_latency_ms(tie) for tie in anatomy.backbone), default=0.0)
    edges = [(index[tie.first], index[tie.second], _length(_latency_ms(tie), longest)) for tie in anatomy.backbone]
    gap = _label_gap(stage) if stage.link_labels else 26.0 if stage.names else 1.0 if stage.measure.tiny else 8.0
    centres = arrange(radii, edges, gap)
    middle = (float(centres[:, 0].mean()), float(centres[:, 1].mean())) if len(centres) else (0.0, 0.0)
    points = tuple((float(x), float(y)) for x, y in centres)
    return replace(
        stage,
        centres=points,
        clusters=tuple(
            _cluster(stage, place, _facing(at, middle), wide)
            for place, at, wide in zip(stage.standing, points, widened, strict=True)
        ),
    )


def _label_gap(stage: Stage) -> float:
    """Room between places for the longest label of a link, as far as the page allows."""
    ties = stage.anatomy.backbone
    texts = [lane_text(lanes, stage.link_facets) for tie in ties for lanes in (tie.forward, tie.backward) if lanes]
    longest = max(text_width(text, LINK_LABEL_SIZE) for text in texts) + 30
    return min(longest, 300.0 if len(ties) <= _ALWAYS_DESCRIBED_LINKS else 150.0 if len(ties) <= 12 else 100.0)


def _cluster(stage: Stage, place: int, facing: float, widened: float) -> Cluster:
    parts, groups = stage.anatomy, stage.groups_at(place)
    counts = [len(parts.group(group).nodes) for group in groups]
    bracketed = parts.is_bridge(place) and any(parts.ties_of[group][0].shared_at(group) for group in groups)
    return cluster(counts, parts.is_bridge(place), stage.measure, facing, widened, bracketed)


def _facing(at: Point, middle: Point) -> float:
    """Away from the middle of the picture, where there are fewer lines."""
    x, y = at[0] - middle[0], at[1] - middle[1]
    return -math.pi / 2 if math.hypot(x, y) < 1 else math.atan2(y, x)


def _latency_ms(tie: Tie) -> float:
    return max(lane.properties.latency_ms for lane in tie.leading)


def _length(latency_ms: float, longest_ms: float) -> float:
    """Longer for more latency, with the differences damped: 300 ms and 1 ms must fit on one page."""
    if longest_ms <= 0:
        return 1.0
    return max(float((latency_ms / longest_ms) ** 0.6), _SHORTEST)


def _label_room(stage: Stage, place: int, widened: float) -> float:
    """How far names reach beyond a cluster."""
    if not stage.names:
        return 0.0
    shape = _cluster(stage, place, -math.pi / 2, widened)
    frames = [box_of(line) for name in sector_names(stage, place, (0.0, 0.0), shape) for line in name.lines]
    beyond = max((max(-one.left, one.right, -one.top, one.bottom) for one in frames), default=0.0) - shape.radius
    return max(beyond * 0.65, 14.0)


def _widened(stage: Stage, place: int) -> float:
    """How much wider a cluster should be for the names around it to stand close to their groups."""
    wide = 1.0
    while wide < _WIDEST:
        names = sector_names(stage, place, (0.0, 0.0), _cluster(stage, place, -math.pi / 2, wide))
        if not any(name.leader for name in names):
            return wide
        wide *= 1.12
    return 1.0 if len(stage.groups_at(place)) > 1 else wide


def has_sector_names(stage: Stage, place: int) -> bool:
    """Whether each group has its name at its own sector, rather than all under the place's name."""
    groups = stage.groups_at(place)
    return stage.names and 1 < len(groups) <= _LABELLED_GROUPS


@dataclass(frozen=True, slots=True)
class SectorName:
    """A group's name beside its sector; a leader leads to one that had to move away from its neighbours."""

    lines: tuple[Words, ...]
    leader: Stroke | None


def sector_names(stage: Stage, place: int, centre: Point, shape: Cluster) -> list[SectorName]:
    """The names of the groups around a cluster, each with what is special about its access link."""
    if not has_sector_names(stage, place):
        return []
    names: list[SectorName] = []
    taken: list[Box] = []
    for group, sector in zip(stage.groups_at(place), shape.sectors, strict=True):
        texts = group_lines(stage, group)
        for tier in range(_TIERS):
            lines = _name_lines(texts, centre, sector.middle, shape.radius + 7 + 15 * tier)
            frame = reduce(Box.union, (box_of(line) for line in lines)).grown(1)
            if not any(frame.overlap(other) for other in taken):
                break
        rim, end = polar(sector.middle, shape.radius), polar(sector.middle, shape.radius + 4 + 15 * tier)
        taken.append(frame)
        names.append(SectorName(lines, Stroke(_plus(centre, rim), _plus(centre, end), FAINT, 1.0) if tier else None))
    return names


def _name_lines(texts: Sequence[str], centre: Point, angle: float, radius: float) -> tuple[Words, ...]:
    """Lines that begin at a point around the centre and grow away from it."""
    x, y = _plus(centre, polar(angle, radius))
    sideways, upright = math.cos(angle), math.sin(angle)
    anchor = Anchor.START if sideways > 0.25 else Anchor.END if sideways < -0.25 else Anchor.MIDDLE
    height = 14.0 * len(texts)
    top = y - height / 2 + upright * height / 2
    return tuple(
        Words(
            (x, top + 7 + 14 * at),
            text,
            10.5 if at else 11.5,
            anchor,
            MUTED if at else INK,
            role="note" if at else "name",
        )
        for at, text in enumerate(texts)
    )


def _plus(one: Point, other: Point) -> Point:
    return (one[0] + other[0], one[1] + other[1])


def group_lines(stage: Stage, place: int) -> list[str]:
    """A group's name, and its access link as far as it is not like all others."""
    group = stage.anatomy.group(place)
    count = f" ×{len(group.nodes)}" if len(group.nodes) > 1 else ""
    lines = [short(group.name) + count]
    if place in stage.anatomy.home and stage.access_facets.any:
        tie = stage.anatomy.ties_of[place][0]
        lines.extend(_access_lines(tie.lanes_from(place), tie.lanes_from(tie.other(place)), stage.access_facets))
    return lines


def _access_lines(up: Sequence[Lane], down: Sequence[Lane], facets: Facets) -> list[str]:
    """What both directions have in common only once."""
    texts = [lane_text(lanes, facets) if lanes else "" for lanes in (up, down)]
    if texts[0] == texts[1]:
        return texts[:1] if texts[0] else []
    but_rate = replace(facets, rate=False)
    if len(up) == len(down) == 1 and lane_text(up, but_rate) == lane_text(down, but_rate):
        rates = " · ".join(f"{rate(way[0].properties.rate_bps)} {word}" for way, word in ((up, "up"), (down, "down")))
        return [line for line in (lane_text(up, but_rate), rates) if line]
    return [f"{word}: {text}" for word, text in zip(("up", "down"), texts, strict=True) if text]


def all_lanes(ties: Sequence[Tie]) -> list[Lane]:
    return [lane for tie in ties for lane in tie.lanes]
