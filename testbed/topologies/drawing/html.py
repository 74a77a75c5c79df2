"""One HTML file with the picture and the tables behind it; it works offline, without scripts, from anywhere.

Takes a `Topology`, gives text; touches nothing. A content security policy forbids the page every outside resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from testbed.topologies.drawing.grouping import Anatomy, Tie, anatomy
from testbed.topologies.drawing.node_kinds import node_kinds
from testbed.topologies.drawing.scene import compose
from testbed.topologies.drawing.style import Style
from testbed.topologies.drawing.svg import FONTS, svg_element
from testbed.topologies.drawing.wording import clean, lane_text
from testbed.topologies.model import Topology

_MOST_ROWS = 2000
"""A longer table would only slow the browser down; it ends with how many rows are missing."""

_LOOK = f"""
body {{ font-family: {FONTS}; color: #1f2933; background: #fff }}
body {{ margin: 1.5rem auto; padding: 0 1rem; max-width: 100rem }}
svg {{ max-width: 100%; height: auto }}
svg .link:hover, svg .loss:hover, svg .node:hover, svg .straggler:hover, svg .bubble:hover {{ stroke: #e69f00 }}
h2 {{ font-size: 1.1rem; margin-top: 2rem }}
table {{ border-collapse: collapse; font-size: .85rem }}
th, td {{ text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid #e4e8ed; vertical-align: top }}
th {{ color: #5f6b7a; font-weight: 600 }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums }}
p.note {{ color: #5f6b7a; font-size: .85rem }}
@media print {{ svg {{ width: 100% }} }}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def html(topology: Topology, style: Style | None = None) -> str:
    """A whole page."""
    picture = compose(topology, style)
    parts = anatomy(topology)
    title = escape(picture.title)
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>",
        f"<style>{_LOOK}</style>",
        "</head>",
        "<body>",
        svg_element(picture),
        '<p class="note">Point at a node, a bubble or a link to see what it is.</p>',
        *_table("Services", ("service", "nodes", "access", "attached to"), _service_rows(parts)),
        *_table("Links between places", ("from", "to", "there", "back", "remarks"), _link_rows(parts, parts.backbone)),
        *_table("Access links", ("bridge", "nodes", "down", "up", "remarks"), _link_rows(parts, parts.access)),
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def _service_rows(parts: Anatomy) -> list[tuple[str | int, ...]]:
    _, kind_of = node_kinds(parts)
    rows: list[tuple[str | int, ...]] = []
    for place in parts.places[len(parts.bridges) :]:
        group, kind = parts.group(place), kind_of[place]
        others = [clean(parts.name(tie.other(place))) for tie in parts.ties_of[place]]
        more = f" and {len(others) - 4} more" if len(others) > 4 else ""
        words = f"{kind.words} (slow)" if kind.slow else kind.words
        rows.append((clean(group.name), len(group.nodes), words, ", ".join(others[:4]) + more))
    return rows


def _link_rows(parts: Anatomy, ties: Iterable[Tie]) -> list[tuple[str | int, ...]]:
    return [
        (
            clean(parts.name(tie.first)),
            clean(parts.name(tie.second)),
            lane_text(tie.forward) if tie.forward else "–",
            ("the same" if tie.symmetric else lane_text(tie.backward)) if tie.backward else "–",
            _remarks(tie),
        )
        for tie in ties
    ]


def _remarks(tie: Tie) -> str:
    found = []
    if tie.one_way:
        found.append("one-way")
    if tie.shared_at(tie.first) or tie.shared_at(tie.second):
        found.append("shared access link")
    if any(lane.starts_down for lane in tie.lanes):
        found.append("starts down")
    if any(lane.changes for lane in tie.lanes):
        found.append("changes by events")
    return ", ".join(found)


def _table(title: str, columns: Sequence[str], rows: Sequence[tuple[str | int, ...]]) -> list[str]:
    if not rows:
        return []
    lines = [
        f"<h2>{escape(title)}</h2>",
        "<table>",
        f"<tr>{''.join(f'<th>{escape(one)}</th>' for one in columns)}</tr>",
    ]
    lines.extend(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows[:_MOST_ROWS])
    lines.append("</table>")
    if len(rows) > _MOST_ROWS:
        lines.append(f'<p class="note">and {len(rows) - _MOST_ROWS} more</p>')
    return lines


def _cell(value: str | int) -> str:
    return f'<td class="number">{value}</td>' if isinstance(value, int) else f"<td>{escape(value)}</td>"
