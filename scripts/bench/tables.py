"""Prints what a bench has found. Takes rows, gives text."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

Row = dict[str, float | int | str | None]
"""Figures by name; None was not measured."""


def as_text(rows: Sequence[Row], form: str) -> str:
    """As `json`, as a `table` with a line for every row, or as a `list` with a line for every name."""
    if form == "json":
        return json.dumps(rows, indent=2)
    if form == "list":
        return "\n".join(f"{name:36}{'  '.join(cells)}" for name, *cells in zip(*_cells(rows), strict=True))
    lines = _cells(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def as_markdown(rows: Sequence[Row]) -> str:
    """A table of a page."""
    head, *lines = _cells(rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def load() -> str:
    """How many processes want to run, to print beside figures."""
    return "load " + " ".join(f"{each:.1f}" for each in os.getloadavg())


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    names = [*dict.fromkeys(name for row in rows for name in row)]
    return [names, *([_cell(row.get(name)) for name in names] for row in rows)]


def _cell(value: float | int | str | None) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "" if value is None else str(value)
