"""Click's parameter type for values with a unit. Takes text, gives the parsed value; touches nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import click

from testbed.units import UnitError

_Value = TypeVar("_Value")


class Quantity(click.ParamType[_Value], Generic[_Value]):
    """A value with a unit; a bad one is a usage error that says how to write it."""

    def __init__(self, name: str, parse: Callable[[str], _Value]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> _Value:
        if not isinstance(value, str):
            return value  # type: ignore[return-value]  # click passes converted values again
        try:
            return self._parse(value)
        except UnitError as problem:
            self.fail(f"{problem.message} ({problem.hint})" if problem.hint else problem.message, param, ctx)
