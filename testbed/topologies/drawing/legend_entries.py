"""Which lines the legend of a picture has: only what the picture really contains, and what is said once for all.

Takes a topology and its stage, gives `Entry`s; touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from testbed.topologies.drawing.grouping import Tie
from testbed.topologies.drawing.legend import (
    Entry,
    bridge_symbol,
    bubble_symbol,
    dashed_symbol,
    eventful_symbol,
    hollow_bridge_symbol,
    inner_symbol,
    loss_symbol,
    node_symbol,
    one_way_symbol,
    shared_symbol,
    width_symbol,
)
from testbed.topologies.drawing.node_kinds import NodeKind
from testbed.topologies.drawing.stage import Stage, all_lanes
from testbed.topologies.drawing.strokes import Pen, worst_loss
from testbed.topologies.drawing.wording import EVERYTHING, common, number, percent, rate
from testbed.topologies.model import PartitionEvent, Routing, Topology


def entries(
    topology: Topology, stage: Stage, kinds: Sequence[NodeKind], pen: Pen, roles: Set[str], notes: Sequence[str]
) -> list[Entry]:
    """All lines of the legend, from the top; `roles` are those of the shapes that the picture has."""
    return [*_places(stage, kinds, roles), *_links(stage, pen, roles), *_remarks(topology, stage, notes)]


def _places(stage: Stage, kinds: Sequence[NodeKind], roles: Set[str]) -> list[Entry]:
    parts = stage.anatomy
    found: list[Entry] = []
    if parts.bridges:
        found.append(Entry(f"bridge ({len(parts.bridges)})", bridge_symbol))
    if parts.eventful_bridges:
        found.append(Entry("bridge that events take down", hollow_bridge_symbol))
    for kind in kinds:
        words = f"slow node: {kind.words} ({kind.count})" if kind.slow else f"node: {kind.words} ({kind.count})"
        found.append(Entry(words, node_symbol(kind.colour, kind.slow)))
    if parts.eventful_ranks:
        found.append(Entry("hollow: node with events", eventful_symbol))
    if parts.home and "bubble" in roles:
        found.append(Entry("nodes behind one bridge", bubble_symbol))
    if parts.inner:
        found.append(Entry("nodes linked with each other", inner_symbol))
    return [Entry("Places", heading=True), *found] if found else []


def _links(stage: Stage, pen: Pen, roles: Set[str]) -> list[Entry]:
    parts = stage.anatomy
    found: list[Entry] = []
    if not pen.widths.flat:
        found.append(Entry(f"thicker: {rate(pen.widths.low)} to {rate(pen.widths.high)}", width_symbol))
    if any(tie.one_way for tie in parts.ties):
        found.append(Entry("one-way link", one_way_symbol))
    if any(tie.unsteady for tie in parts.ties):
        found.append(Entry("starts down or changes by events", dashed_symbol))
    if any(tie.shared_at(place) for tie in parts.ties for place in (tie.first, tie.second)):
        found.append(Entry("nodes share one access link", shared_symbol))
    losses = [worst_loss(tie) for tie in parts.ties if worst_loss(tie) > 0]
    if losses and "loss" in roles:
        low, high = min(losses), max(losses)
        spread = percent(low) if low == high else f"{number(low * 100)} to {percent(high)}"
        found.append(Entry(f"packet loss: {spread}", loss_symbol))
    found.extend(_said_once("access links", parts.access))
    if not (stage.link_labels and stage.link_facets == EVERYTHING):
        found.extend(_said_once("links between places", parts.backbone))
    return [Entry("Links", heading=True), *found] if found else []


def _said_once(what: str, ties: Sequence[Tie]) -> list[Entry]:
    """What all links of a kind have in common."""
    words = common(all_lanes(ties))
    return [Entry(f"all {what}: {words}")] if words else []


def _remarks(topology: Topology, stage: Stage, notes: Sequence[str]) -> list[Entry]:
    found: list[str] = []
    if len(stage.anatomy.backbone) > 1 and not stage.anatomy.backbone_is_flat:
        found.append("distances on paper follow latency, roughly")
    if topology.routing is not Routing.HOPS:
        found.append(f"routing by {topology.routing}")
    if topology.events:
        partitions = sum(isinstance(event, PartitionEvent) for event in topology.events)
        among = f", {partitions} of them {'partitions' if partitions > 1 else 'a partition'}" if partitions else ""
        found.append(f"{len(topology.events)} event{'s' if len(topology.events) > 1 else ''}{among}")
    found.extend(notes)
    return [Entry("Notes", heading=True), *(Entry(words) for words in found)] if found else []
