"""Checks that a model can be called with the data set, and with the experiment's options by name.

Takes a class or function and options, raises an error if they do not fit; touches nothing and calls nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter

from testbed.code import CodeProblem
from testbed.errors import did_you_mean
from testbed.node.models.problems import ModelProblem
from testbed.units import shown

DATA_FIRST = "a model is called with the data set first: def __init__(self, data, …)"
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def check_call(spec: str, make: Callable[..., object], options: Mapping[str, object]) -> None:
    """Checks that the model takes every option, none is missing, and the first parameter is for the data set."""
    parameters = _parameters(make)
    if parameters is None:
        return
    if not parameters or parameters[0].kind not in _BY_POSITION:
        raise _at(make, f"`{spec}` takes no data set; {DATA_FIRST}")
    first, rest = parameters[0], parameters if parameters[0].kind is Parameter.VAR_POSITIONAL else parameters[1:]
    known = [each.name for each in rest if each.kind in _BY_NAME]
    takes_any = any(each.kind is Parameter.VAR_KEYWORD for each in rest)
    for name in options:
        if name == first.name and first.kind is Parameter.POSITIONAL_OR_KEYWORD:
            raise _at(make, f"the first parameter of `{spec}` is `{name}`; {DATA_FIRST}")
        if name not in known and not takes_any:
            hint = did_you_mean(name, known) if known else "it has no options"
            raise ModelProblem(f"model {spec} has no option {shown(name)}", hint)
    missing = [each.name for each in rest if each.kind in _BY_NAME and each.default is Parameter.empty]
    for name in missing:
        if name not in options and not seems_for_data(make):
            raise _at(
                make, f"the first parameter of `{spec}` is `{first.name}`, and `{name}` has no value; {DATA_FIRST}"
            )
        if name not in options:
            hint = f"give one under `model: options:`, as {{{name}: …}}, or give the parameter a default"
            raise ModelProblem(f"model {spec} needs a value for {shown(name)}", hint)


def seems_for_data(make: Callable[..., object]) -> bool:
    """Whether the first parameter is for the data set, judged by its name and default."""
    parameters = _parameters(make)
    if parameters is None:
        return False
    return bool(parameters) and parameters[0].default is Parameter.empty and "data" in parameters[0].name.lower()


def _parameters(make: Callable[..., object]) -> list[Parameter] | None:
    """The parameters of a callable; None if it has no signature."""
    try:
        return list(inspect.signature(make).parameters.values())
    except (TypeError, ValueError):
        return None


def _at(make: Callable[..., object], message: str) -> CodeProblem:
    """A problem at the model's `__init__`, or at the function."""
    code = getattr(getattr(make, "__init__", None) if isinstance(make, type) else make, "__code__", None)
    if code is None:
        return CodeProblem(message)
    return CodeProblem(message, code.co_filename.rpartition("/")[2], code.co_firstlineno)
