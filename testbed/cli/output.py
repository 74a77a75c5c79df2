"""Prints data: one table, one JSON value or CSV, to stdout alone."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import click

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


def print_json(value: object) -> None:
    """One JSON value; a number that JSON cannot hold is a bug of the caller's."""
    json.dump(value, sys.stdout, ensure_ascii=False, allow_nan=False, indent=2)
    sys.stdout.write("\n")


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_csv_cell(cell) for cell in row] for row in rows)


def printable(text: str) -> str:
    """Without what would drive a terminal: a file's names are not commands."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)


def _csv_cell(cell: Cell) -> Cell:
    """Truth as programs other than Python's write it."""
    return str(cell).lower() if isinstance(cell, bool) else cell


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """A table for people; numbers are right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    shown = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(shown) and all(isinstance(row[index], int | float) for row in shown)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in shown:
        table.add_row(*("" if cell is None else printable(str(cell)) for cell in row))
    console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        # A pipe has no width of its own: a table in a file or under `grep` must not be folded at 80 columns.
        console.width = 10_000
    console.print(table, soft_wrap=not console.is_terminal)
