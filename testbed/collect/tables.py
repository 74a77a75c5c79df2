"""Results as rows of cells, for files that programs read.

Takes summaries, gives columns and rows; touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import get_args, get_type_hints

from testbed.collect.details import NodeRow, RoundRow
from testbed.collect.grouping import RunGroup
from testbed.collect.summary import RunSummary

Cell = str | int | float | bool | None
AnyRow = RunSummary | NodeRow | RoundRow | RunGroup


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    types: tuple[type, ...]
    """Types of the values, each of which may also be None."""
    rows: list[list[Cell]]


def flat_table(kind: type[AnyRow], rows: Sequence[AnyRow]) -> Table:
    """A column for every number: `accuracy: {mean: …}` becomes `accuracy_mean`; lists become text."""
    columns = tuple(_columns(kind))
    cells = [list(_cells(row)) for row in rows]
    return Table(tuple(name for name, _type in columns), tuple(type_ for _name, type_ in columns), cells)


def _columns(kind: type) -> list[tuple[str, type]]:
    found: list[tuple[str, type]] = []
    hints = get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        if is_dataclass(hint) and isinstance(hint, type):
            found += [(f"{field.name}_{name}", type_) for name, type_ in _columns(hint)]
        else:
            choices = [each for each in get_args(hint) or (hint,) if each in (str, int, float, bool)]
            is_list = getattr(hint, "__origin__", None) is tuple
            found.append((field.name, str if is_list or not choices else choices[0]))
    return found


def _cells(row: object) -> list[Cell]:
    found: list[Cell] = []
    for field in fields(row):  # type: ignore[arg-type]
        value = getattr(row, field.name)
        if is_dataclass(value):
            found += _cells(value)
        elif isinstance(value, dict):
            found.append("; ".join(f"{key}={each}" for key, each in value.items()))
        elif isinstance(value, tuple):
            found.append("; ".join(str(each) for each in value))
        else:
            found.append(value)
    return found
