"""Options of what is in the tables: their names, types, defaults and descriptions.

Pure. `experiment/built_in.py` makes the reader of experiments from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

Value = bool | int | float | str | tuple[int, ...] | None
Values = Mapping[str, object]
"""Options by name as an experiment has them: checked, complete, defaults filled in."""


class Type(Enum):
    """What an option's value is; `experiment/scalars.py` says how its text is read."""

    POSITIVE = auto()
    """A whole number from 1 on."""
    POSITIVE_OR_FREE = auto()
    """A whole number from 1 on, or the word `free`: without a limit."""
    AMOUNT = auto()
    """A number from 0 on."""
    SHARE = auto()
    """A part of a whole: above 0, at most 1."""
    AT_LEAST_ONE = auto()
    TRUTH = auto()
    DURATION = auto()
    """In seconds, above 0."""
    NAME = auto()
    WIDTHS = auto()
    """Whole numbers from 1 on."""


@dataclass(frozen=True)
class Option:
    """One option; its default is None where it may be left out."""

    name: str
    type: Type | tuple[str, ...]
    """A tuple has the words to choose from."""
    default: Value
    help: str


def number(options: Values, name: str) -> float:
    """The value of an option that is a number."""
    value = options[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"the option {name} is no number: {value!r}")
    return float(value)


def number_or_none(options: Values, name: str) -> float | None:
    """The same of one that may be left out."""
    return None if options[name] is None else number(options, name)
