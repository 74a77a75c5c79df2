"""Finds algorithms and sharings by the names in a plan: built in, or a researcher's own.

Takes names and options, gives objects. Faults of a researcher's code are raised as `CodeProblem`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from random import Random

from testbed.catalogue.algorithms import ALGORITHMS
from testbed.catalogue.sharings import SHARINGS
from testbed.catalogue.tables import Entry
from testbed.code import CodeProblem, call, file_of, is_code, load_object
from testbed.node.algorithm import ALL_NEIGHBOURS, Algorithm
from testbed.node.sharing.base import Sharing

_DECLARED = "declare {} as the table in docs/writing-an-algorithm.md says, or leave it out"
_OPTIONS = "the experiment's `options` are the arguments of `__init__`: docs/writing-an-algorithm.md"


def choose_algorithm(name: str, options: Mapping[str, object]) -> Algorithm:
    """The algorithm of that name, with its options."""
    source, found = _class(name, ALGORITHMS, Algorithm)
    algorithm = _make(source, found, options)
    assert isinstance(algorithm, Algorithm)  # noqa: S101 - `_class` has checked
    if type(algorithm).run is Algorithm.run:
        raise _at(source, found, f"{found.__name__} has no `async def run(self, node)`")
    for method in ("run", "serve"):
        if not inspect.iscoroutinefunction(getattr(algorithm, method)):
            raise _at(source, found, f"`{method}` of {found.__name__} must be `async def {method}(self, node)`")
        if len(inspect.signature(getattr(algorithm, method)).parameters) != 1:
            raise _at(source, found, f"`{method}` of {found.__name__} must take one argument: the node")
    _check_declared(source, algorithm)
    return algorithm


def check_server(name: str, algorithm: Algorithm, *, has_server: bool) -> None:
    """Raises CodeProblem if the algorithm needs a server, and the experiment has none."""
    if algorithm.needs_server and not has_server:
        hint = "name the node that serves, as with --set algorithm.server=NODE: docs/writing-an-algorithm.md"
        raise _at(name, type(algorithm), f"`{name}` needs a server: say `algorithm: {{server: NODE}}`", hint)


def choose_sharing(name: str, options: Mapping[str, object], random: Random) -> Sharing:
    """The sharing of that name, with the node's own random stream."""
    source, found = _class(name, SHARINGS, Sharing)
    sharing = _make(source, found, {"random": random, **options})
    assert isinstance(sharing, Sharing)  # noqa: S101 - `_class` has checked
    return sharing


def source_of(algorithm: str) -> str:
    """Where an algorithm's class is, as `module:Class` or `file.py:Class`."""
    return algorithm if is_code(algorithm) else ALGORITHMS[algorithm].code


def message_bytes_of(name: str, sharing: Sharing, parameters: int) -> int | None:
    """The message size that a researcher's own sharing declares; None if it declares none."""
    size = call(name, sharing.message_bytes, parameters)
    if size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 0):
        return size
    wrong = f"`message_bytes` must give a number of bytes or None, not {size!r}"
    raise _at(name, type(sharing), wrong, _DECLARED.format("it"))


def _check_declared(source: str, algorithm: Algorithm) -> None:
    """Checks the types of what a researcher's algorithm declares; only values of plain types are compared."""
    waits = call(source, lambda: algorithm.waits)
    if waits is not None and type(waits) is not bool:
        raise _undeclared(source, algorithm, "waits", "True, False or None", waits)
    to: object = call(source, lambda: algorithm.sends_to)
    if not (to is None or (type(to) is int and to >= 0) or (type(to) is str and to == ALL_NEIGHBOURS)):
        raise _undeclared(source, algorithm, "sends_to", f"a number, {ALL_NEIGHBOURS!r} or None", to)
    served = call(source, lambda: algorithm.needs_server)
    if type(served) is not bool:
        raise _undeclared(source, algorithm, "needs_server", "True or False", served)


def _undeclared(source: str, algorithm: Algorithm, name: str, wanted: str, value: object) -> CodeProblem:
    wrong = f"`{name}` must be {wanted}, not {call(source, repr, value)}"
    return _at(source, type(algorithm), wrong, _DECLARED.format(f"`{name}`"))


def _class(name: str, built_in: Mapping[str, Entry], base: type) -> tuple[str, type]:
    source = name if is_code(name) else built_in[name].code
    found = load_object(source)
    if not isinstance(found, type) or not issubclass(found, base):
        message = f"`{name}` is not a class derived from {base.__name__}"
        raise _at(source, found, message) if isinstance(found, type) else CodeProblem(message, _file(source))
    return source, found


def _make(source: str, found: type, options: Mapping[str, object]) -> object:
    try:
        inspect.signature(found).bind(**options)
    except TypeError as problem:
        wrong = f"{found.__name__} cannot be made with these options: {problem}"
        raise _at(source, found, wrong, _OPTIONS) from None
    return call(source, found, **options)


def _at(source: str, found: type, message: str, hint: str = "") -> CodeProblem:
    try:
        line = inspect.getsourcelines(found)[1]
    except (OSError, TypeError):
        return CodeProblem(message, _file(source), hint=hint)
    return CodeProblem(message, _file(source), line, hint)


def _file(source: str) -> str | None:
    path = file_of(source)
    return path.name if path else None
