"""Prints data: one table, one JSON value or CSV, to stdout alone."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_NARROW = 30
"""Least width of wrapped columns; below it other columns are left out."""

Cell = str | int | float | bool | None
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def format_option(function: _Function) -> _Function:
    """`--format table|json|csv`, passed on as a `Format` called `output_format`."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice([each.value for each in Format]),
        default=Format.TABLE.value,
        show_default=True,
        callback=lambda _context, _parameter, value: Format(value),
        help="How to print the data.",
    )(function)


def colour() -> bool | None:
    """Click's `color`: False where the environment declines colours, None to decide by whether it is a terminal."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def print_json(value: object) -> None:
    """Prints one JSON value; numbers that JSON cannot hold are a bug of the caller."""
    json.dump(value, sys.stdout, ensure_ascii=False, allow_nan=False, indent=2)
    sys.stdout.write("\n")


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_csv_cell(cell) for cell in row] for row in rows)


def printable(text: str) -> str:
    """The text without terminal control characters, which names in a file may contain."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)


def _csv_cell(cell: Cell) -> Cell:
    """A cell for CSV, with booleans as `true` and `false`."""
    return str(cell).lower() if isinstance(cell, bool) else cell


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    least: Sequence[str] = (),
    wrapped: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> None:
    """Prints a table with notes beneath it; numbers are right-aligned.

    On a narrow terminal columns are left out, in the order of `least`, and a note says so. Only columns in `wrapped`
    are folded, between words: a name that is cut in two cannot be copied. A note that begins with a column's name and a
    colon is left out with the column.
    """
    from rich.console import Console

    shown = [list(row) for row in rows]
    console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        # A pipe has no width of its own: a table in a file or under `grep` must not be folded at 80 columns.
        console.width = 10_000
    kept, out = list(range(len(columns))), list[str]()

    def table(widest: int | None = None) -> Table:
        return _table(columns, shown, kept, wrapped if least else columns, widest)

    for name in least:
        if name in columns and _width(console, table(_NARROW)) > console.width:
            kept.remove(columns.index(name))
            out.append(name)
    width = console.width
    if least:
        console.width = max(width, _width(console, table(_NARROW)))
    console.print(table(), soft_wrap=console.width > width or not console.is_terminal)
    console.width = width
    left_out = [f"left out, as the terminal is narrow: {', '.join(out)} (--format csv has everything)"] if out else []
    told = [note for note in notes if not any(note.startswith(f"{name}: ") for name in out)]
    for note in (*told, *left_out):
        console.print(printable(note), soft_wrap=not console.is_terminal)


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    kept: Sequence[int],
    wrapped: Sequence[str],
    widest: int | None,
) -> Table:
    """Builds the table; wrapped columns get at most `widest`."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index in kept:
        name = columns[index]
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        wraps = name in wrapped
        table.add_column(
            name,
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=not wraps,
            max_width=widest if wraps else None,
        )
    for row in rows:
        table.add_row(*("" if row[index] is None else printable(str(row[index])) for index in kept))
    return table


def _width(console: Console, table: Table) -> int:
    """Width at which nothing is folded."""
    return console.measure(table, options=console.options.update(max_width=10_000)).maximum
