"""Types of a soak: its cases, and how many tries must succeed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout that is tried."""


@dataclass(frozen=True)
class Verdict:
    """Result of a try: a word for the table, and measurements."""

    is_good: bool
    word: str
    figures: dict[str, object]


@dataclass(frozen=True)
class Case:
    """`attempt` is given an empty folder and the number of the try, counted from 0."""

    name: str
    attempt: Callable[[Path, int], Verdict]
    at_most: int | None = None
    """Tries that are made of it, however many of the others."""

    def tries(self, of_others: int) -> int:
        return of_others if self.at_most is None else min(self.at_most, of_others)


@dataclass(frozen=True)
class Soak:
    """`tries` of every case, of which `wanted` must be good; both depend on how many cores are kept busy."""

    name: str
    about: str
    cases: tuple[Case, ...]
    tries: Callable[[int], int]
    wanted: Callable[[int, int], int]
    """Of so many tries, with so many cores kept busy."""
