"""Problems of a run: what could not be read, or is missing.

Takes nothing, gives a type and words, touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST_NAMES = 3
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Problem:
    """One sentence; `incomplete` when results are missing because of it."""

    text: str
    incomplete: bool = True


def named(names: Sequence[str]) -> str:
    """The first few of many names, and how many more there are."""
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def with_others(names: Sequence[str]) -> str:
    """The first of many names, and how many others there are."""
    return names[0] if len(names) == 1 else f"{names[0]} and {counted(len(names) - 1, 'other')}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shortened(text: str) -> str:
    """The text cut to a length that fits into a list of problems."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
