"""Prints what a bench has found. Takes rows, gives text."""

from __future__ import annotations

import json
from collections.abc import Sequence

Row = dict[str, float | int | str | None]
"""Figures by name; None was not measured."""


def as_text(rows: Sequence[Row], form: str) -> str:
    """As `json`, or as a `table` with a line for every row, columns in the order in which rows have them."""
    if form == "json":
        return json.dumps(rows, indent=2)
    columns = [*dict.fromkeys(column for row in rows for column in row)]
    lines = [columns, *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def as_markdown(rows: Sequence[Row]) -> str:
    """A table of a page."""
    columns = [*dict.fromkeys(column for row in rows for column in row)]
    lines = [columns, ["---"] * len(columns), *([_cell(row.get(column)) for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: float | int | str | None) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "" if value is None else str(value)
