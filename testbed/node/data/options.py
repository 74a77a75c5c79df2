"""Reads the options of a data set or a partition, and checks that each is known, of the right type and in range.

Takes a mapping as an experiment file gives it, gives typed values or `Impossible`; touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from testbed.errors import did_you_mean
from testbed.node.data.problems import Impossible
from testbed.units import shown


class DataOptions:
    """The options of one data set or partition; `done` must be called after all known options have been read."""

    def __init__(self, given: Mapping[str, object], of: str) -> None:
        self._given = dict(given)
        self._of = of
        self._known: list[str] = []

    def whole(self, name: str, default: int, least: int, most: int = 10**9) -> int:
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._bad(name, value, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str, default: float, least: float, most: float) -> float:
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self._bad(name, value, "a number")
        if not least <= value <= most:
            raise self._bad(name, value, f"a number from {least:g} to {most:g}")
        return float(value)

    def choice(self, name: str, default: str, among: Sequence[str]) -> str:
        value = self._take(name, default)
        if not isinstance(value, str) or value not in among:
            raise self._bad(name, value, f"one of {', '.join(among)}")
        return value

    def text(self, name: str, default: str) -> str:
        value = self._take(name, default)
        if not isinstance(value, str):
            raise self._bad(name, value, "a text")
        return value

    def given(self, name: str) -> bool:
        return self._given.get(name) is not None

    def done(self) -> None:
        """Raises Impossible for an option that was not read: it would have no effect."""
        for name in self._given:
            if name not in self._known:
                hint = did_you_mean(name, self._known) or "it has no options"
                raise Impossible(f"{self._of} has no option {shown(name)}", hint)

    def _take(self, name: str, default: object) -> object:
        self._known.append(name)
        value = self._given.get(name)
        return default if value is None else value

    def _bad(self, name: str, value: object, expected: str) -> Impossible:
        return Impossible(f"{self._of}: `{name}` must be {expected}, not {shown(str(value))}")
