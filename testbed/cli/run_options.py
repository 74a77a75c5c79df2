"""The options of a run: `--runtime`, and the options of the runtimes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from testbed.runtimes import registry
from testbed.runtimes.runtime import RunOption

_Function = TypeVar("_Function", bound=Callable[..., Any])


def run_options(function: _Function) -> _Function:
    """Adds the options, passed on as `runtime`, and as `given` by name."""
    of_runtimes = registry.options()

    @wraps(function)
    def collect(*arguments: Any, **values: Any) -> Any:
        given = {each.name: values.pop(each.name) for each in of_runtimes}
        return function(*arguments, given=given, **values)

    decorated: Callable[..., Any] = collect
    for each in reversed(of_runtimes):
        decorated = _option(each)(decorated)
    names = "; ".join(f"{each.name}: {each.facts.what}" for each in registry.RUNTIMES)
    order = ", else ".join(each.name for each in registry.RUNTIMES)
    words = f"What starts the nodes ({names}).  [default: {order}; the first that works on this machine]"
    return click.option("--runtime", metavar="NAME", help=words)(decorated)  # type: ignore[return-value]


def _option(option: RunOption) -> Callable[[Any], Any]:
    names = [option.flag, *([option.short] if option.short else [])]
    if option.is_switch:
        return click.option(*names, option.name, is_flag=True, help=option.help)
    if option.choices:
        return click.option(*names, option.name, type=click.Choice(option.choices), help=option.help)
    return click.option(*names, option.name, type=_Parsed(option), help=option.help)


class _Parsed(click.ParamType[object]):
    """A value that the runtime's own function parses."""

    def __init__(self, option: RunOption) -> None:
        self.name = option.metavar or "text"
        self._option = option

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        return self.name

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        if self._option.parse is None or not isinstance(value, str):
            return value
        try:
            return self._option.parse(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)
