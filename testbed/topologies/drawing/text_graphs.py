"""Writes a topology as Graphviz or Mermaid text, for people who lay out, edit or embed the picture themselves.

Takes a `Topology`, gives text; touches nothing. Identifiers are ours (`b0`, `n3`, `g1`); names appear only in
quoted labels, so that no name can break the syntax. Many nodes are collapsed to one vertex for equal replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from testbed.topologies.drawing.grouping import Anatomy, Lane, Tie, anatomy
from testbed.topologies.drawing.node_kinds import node_kinds
from testbed.topologies.drawing.palette import LOSS, STRAGGLER
from testbed.topologies.drawing.scene import counts
from testbed.topologies.drawing.style import Labels, Style
from testbed.topologies.drawing.wording import clean, lane_text
from testbed.topologies.model import Topology

_APART_UP_TO = 40
"""Nodes; more are collapsed."""
_LABELLED_UP_TO = 400
"""Ties; on more of them labels would be all one sees."""


def dot(topology: Topology, style: Style | None = None) -> str:
    """Graphviz: `dot -Tsvg`, or better `neato`, draws it."""
    parts, labelled = _parts(topology, style or Style())
    _, kind_of = node_kinds(parts)
    lines = [
        f"digraph {_dot_quoted(topology.name)} {{",
        f"  // {counts(topology, parts)}",
        "  graph [layout=neato, overlap=false, splines=true];",
        '  node [fontname="Helvetica", fontsize=11];',
        '  edge [fontname="Helvetica", fontsize=9, dir=none];',
    ]
    for place in parts.places:
        attributes = [f"label={_dot_quoted(parts.name(place))}"]
        if parts.is_bridge(place):
            attributes.append("shape=box, style=filled, fillcolor=black, fontcolor=white")
        elif kind_of[place].slow:
            attributes.append(f'shape=triangle, color="{STRAGGLER}"')
        else:
            attributes.append(f'shape=ellipse, color="{kind_of[place].colour}"')
        lines.append(f"  {_id(parts, place)} [{', '.join(attributes)}];")
    for tie in parts.ties:
        lines.extend(f"  {line};" for line in _dot_edges(parts, tie, labelled))
    for place, lanes in parts.inner.items():
        lines.append(f"  {_id(parts, place)} -> {_id(parts, place)} [{_dot_attributes(lanes, labelled, 'none')}];")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_edges(parts: Anatomy, tie: Tie, labelled: bool) -> list[str]:
    """One undirected edge for a pair that is alike both ways, else an arrow for each direction."""
    first, second = _id(parts, tie.first), _id(parts, tie.second)
    if not tie.one_way and tie.symmetric:
        return [f"{first} -> {second} [{_dot_attributes(tie.forward, labelled, 'none', tie.unsteady)}]"]
    return [
        f"{origin} -> {dest} [{_dot_attributes(lanes, labelled, 'forward', tie.unsteady)}]"
        for origin, dest, lanes in ((first, second, tie.forward), (second, first, tie.backward))
        if lanes
    ]


def _dot_attributes(lanes: Sequence[Lane], labelled: bool, direction: str, dashed: bool = False) -> str:
    latency_ms = lanes[0].properties.latency_ms
    found = [f"dir={direction}", f"len={1 + min(latency_ms, 200.0) / 40:.2f}"]
    if labelled:
        found.append(f"label={_dot_quoted(_edge_text(lanes))}")
    if dashed:
        found.append("style=dashed")
    if any(lane.properties.loss for lane in lanes):
        found.append(f'color="{LOSS}"')
    return ", ".join(found)


def mermaid(topology: Topology, style: Style | None = None) -> str:
    """Mermaid: what Markdown on code hosts draws."""
    parts, labelled = _parts(topology, style or Style())
    _, kind_of = node_kinds(parts)
    lines = [f"%% {counts(topology, parts)}", "flowchart LR"]
    for place in parts.places:
        text = _mermaid_quoted(parts.name(place))
        if parts.is_bridge(place):
            lines.append(f"  {_id(parts, place)}[{text}]:::bridge")
        else:
            lines.append(f"  {_id(parts, place)}({text}){':::slow' if kind_of[place].slow else ''}")
    for tie in parts.ties:
        lines.extend(f"  {line}" for line in _mermaid_edges(parts, tie, labelled))
    for place, lanes in parts.inner.items():
        lines.append(f"  {_id(parts, place)} {_mermaid_arrow('---', lanes, labelled)} {_id(parts, place)}")
    lines.append("  classDef bridge fill:#1f2933,color:#ffffff,stroke:#1f2933")
    lines.append(f"  classDef slow stroke:{STRAGGLER},stroke-width:3px")
    return "\n".join(lines) + "\n"


def _mermaid_edges(parts: Anatomy, tie: Tie, labelled: bool) -> list[str]:
    first, second = _id(parts, tie.first), _id(parts, tie.second)
    line, arrow = ("-.-", "-.->") if tie.unsteady else ("---", "-->")
    if not tie.one_way and tie.symmetric:
        return [f"{first} {_mermaid_arrow(line, tie.forward, labelled)} {second}"]
    return [
        f"{origin} {_mermaid_arrow(arrow, lanes, labelled)} {dest}"
        for origin, dest, lanes in ((first, second, tie.forward), (second, first, tie.backward))
        if lanes
    ]


def _mermaid_arrow(arrow: str, lanes: Sequence[Lane], labelled: bool) -> str:
    return f"{arrow}|{_mermaid_quoted(_edge_text(lanes))}|" if labelled else arrow


def _parts(topology: Topology, style: Style) -> tuple[Anatomy, bool]:
    parts = anatomy(topology, apart=len(topology.nodes) <= _APART_UP_TO)
    labelled = style.labels is Labels.ALL or (style.labels is Labels.AUTO and len(parts.ties) <= _LABELLED_UP_TO)
    return parts, labelled


def _id(parts: Anatomy, place: int) -> str:
    if parts.is_bridge(place):
        return f"b{place}"
    group = parts.group(place)
    return f"n{group.nodes[0].rank}" if len(group.nodes) == 1 else f"g{place - len(parts.bridges)}"


def _edge_text(lanes: Sequence[Lane]) -> str:
    marks: list[tuple[str, Callable[[Lane], bool]]] = [
        ("shared", lambda lane: lane.origin_shared or lane.dest_shared),
        ("starts down", lambda lane: lane.starts_down),
        ("events", lambda lane: lane.changes),
    ]
    found = [words for words, holds in marks if any(holds(lane) for lane in lanes)]
    return lane_text(lanes) + (f" ({', '.join(found)})" if found else "")


def _dot_quoted(text: str) -> str:
    r"""A quoted string in which `"` and the escapes `\N`, `\l`… of labels are plain characters."""
    return '"' + clean(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


_MERMAID_PLAIN = frozenset(" .,-()±·×%…")


def _mermaid_quoted(text: str) -> str:
    """A quoted label in which every character that Mermaid or HTML gives a meaning is an entity."""
    return (
        '"'
        + "".join(char if char in _MERMAID_PLAIN or char.isalnum() else f"#{ord(char)};" for char in clean(text))
        + '"'
    )
