"""An option's value with its unit. Takes what was typed, gives what a parser of units makes of it; touches nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import click

from testbed.units import UnitError

_Value = TypeVar("_Value")


class Quantity(click.ParamType[_Value], Generic[_Value]):
    """What is wrong with it is said with how to put it right; the exit code is 2."""

    def __init__(self, name: str, parse: Callable[[str], _Value]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> _Value:
        if not isinstance(value, str):
            return value  # type: ignore[return-value]  # click gives what it has converted once more
        try:
            return self._parse(value)
        except UnitError as problem:
            self.fail(f"{problem.message} ({problem.hint})" if problem.hint else problem.message, param, ctx)
