"""The lines of a picture's legend: only what the picture contains, and properties that all parts share.

Takes a topology and its stage, gives `LegendEntry`s; touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from testbed.topologies.drawing.grouping import Tie
from testbed.topologies.drawing.legend import (
    LegendEntry,
    Symbol,
    bridge_symbol,
    bubble_symbol,
    dashed_symbol,
    eventful_symbol,
    hollow_bridge_symbol,
    inner_symbol,
    loss_symbol,
    neutral_symbol,
    node_symbol,
    one_way_symbol,
    rim_symbol,
    shared_symbol,
    width_symbol,
)
from testbed.topologies.drawing.node_kinds import NodeKind
from testbed.topologies.drawing.stage import Stage, all_lanes
from testbed.topologies.drawing.strokes import Pen, worst_loss
from testbed.topologies.drawing.wording import EVERYTHING, common, number, percent, rate
from testbed.topologies.model import PartitionEvent, Routing, Topology
from testbed.topologies.two_way import count_events


def entries(
    topology: Topology,
    stage: Stage,
    kinds: Sequence[NodeKind],
    pen: Pen,
    lines: Sequence[Tie],
    roles: Set[str],
    notes: Sequence[str],
) -> list[LegendEntry]:
    """All lines of the legend, from the top; `lines` are the ties drawn as such, `roles` those of all shapes."""
    return [*_places(stage, kinds, roles), *_links(stage, pen, lines, roles), *_remarks(topology, stage, lines, notes)]


def _places(stage: Stage, kinds: Sequence[NodeKind], roles: Set[str]) -> list[LegendEntry]:
    parts = stage.anatomy
    found: list[LegendEntry] = []
    if parts.bridges:
        found.append(LegendEntry(f"bridge ({len(parts.bridges)})", bridge_symbol))
    if parts.eventful_bridges:
        found.append(LegendEntry("bridge that events take down", hollow_bridge_symbol))
    for kind in kinds:
        words = f"slow node: {kind.words} ({kind.count})" if kind.slow else f"node: {kind.words} ({kind.count})"
        found.append(LegendEntry(words, node_symbol(kind.colour, kind.slow)))
    if parts.eventful_ranks:
        found.append(LegendEntry("hollow: node with events", eventful_symbol))
    if parts.home and "bubble" in roles:
        found.append(LegendEntry("nodes behind one bridge", bubble_symbol))
    if parts.inner:
        found.append(LegendEntry("nodes linked with each other", inner_symbol))
    return [LegendEntry("Places", heading=True), *found] if found else []


def _links(stage: Stage, pen: Pen, lines: Sequence[Tie], roles: Set[str]) -> list[LegendEntry]:
    parts = stage.anatomy
    spokes = [tie for tie in lines if tie.first in parts.home or tie.second in parts.home]
    found: list[LegendEntry] = []
    if not pen.widths.flat:
        where = " between places" if spokes and not pen.access_widened else ""
        found.append(LegendEntry(f"thicker{where}: {rate(pen.widths.low)} to {rate(pen.widths.high)}", width_symbol))
    if any(tie.one_way for tie in lines):
        found.append(LegendEntry("one-way link", one_way_symbol))
    if any(tie.unsteady for tie in lines):
        found.append(LegendEntry("starts down or changes by events", dashed_symbol))
    if any(tie.shared_at(place) for tie in lines for place in (tie.first, tie.second)):
        found.append(LegendEntry("nodes share one access link", shared_symbol))
    if "rim" in roles:
        found.append(LegendEntry("rim of a node: its access link", rim_symbol))
    if "loss" in roles:
        found.append(LegendEntry(f"packet loss: {_losses(lines)}", loss_symbol))
    grey = any(not tie.shared_at(place) for tie in spokes for place in (tie.first, tie.second) if place in parts.home)
    found.extend(_said_once("access links", parts.access, neutral_symbol if grey and not pen.access_coloured else None))
    if not (stage.link_labels and stage.link_facets == EVERYTHING):
        found.extend(_said_once("links between places", parts.backbone))
    return [LegendEntry("Links", heading=True), *found] if found else []


def _losses(ties: Sequence[Tie]) -> str:
    """From the least to the most in either direction of the links that lose any."""
    losses = [lane.properties.loss for tie in ties if worst_loss(tie) > 0 for lane in tie.lanes]
    low, high = min(losses), max(losses)
    return percent(low) if low == high else f"{number(low * 100)} to {percent(high)}"


def _said_once(what: str, ties: Sequence[Tie], symbol: Symbol | None = None) -> list[LegendEntry]:
    """What all links of a kind have in common."""
    words = common(all_lanes(ties))
    return [LegendEntry(f"all {what}: {words}", symbol)] if words else []


def _remarks(topology: Topology, stage: Stage, lines: Sequence[Tie], notes: Sequence[str]) -> list[LegendEntry]:
    found: list[str] = []
    if any(tie.parallel for tie in lines):
        found.append("parallel links: drawn like the one with the least latency, marked for loss if any of them loses")
    if len(stage.anatomy.backbone) > 1 and not stage.anatomy.backbone_is_flat:
        found.append("distances on paper follow latency, roughly")
    if topology.routing is not Routing.HOPS:
        found.append(f"routing by {topology.routing}")
    events = count_events(topology)
    if events:
        partitions = sum(isinstance(event, PartitionEvent) for event in topology.events)
        among = f", {partitions} of them {'partitions' if partitions > 1 else 'a partition'}" if partitions else ""
        found.append(f"{events} event{'s' if events > 1 else ''}{among}")
    found.extend(notes)
    return [LegendEntry("Notes", heading=True), *(LegendEntry(words) for words in found)] if found else []
