"""From the names in the plan to the code: algorithms and ways of sharing, built in or a researcher's own.

Takes names and options, gives objects. What is wrong with code that is not ours is told as `CodeProblem`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from random import Random
from typing import Literal

from testbed.catalogue.algorithms import ALGORITHMS, exchange_of
from testbed.catalogue.sharings import SHARINGS
from testbed.catalogue.tables import Entry
from testbed.code import CodeProblem, call, file_of, is_code, load_object
from testbed.experiment.language import Experiment
from testbed.node.algorithm import ALL_NEIGHBOURS, Algorithm
from testbed.node.sharing.base import Sharing
from testbed.plan.model import Declared


def choose_algorithm(name: str, options: Mapping[str, object]) -> Algorithm:
    """The algorithm of that name, with its options."""
    source, found = _class(name, ALGORITHMS, Algorithm)
    algorithm = _make(source, found, options)
    assert isinstance(algorithm, Algorithm)  # noqa: S101 - `_class` has looked
    if type(algorithm).run is Algorithm.run:
        raise _at(source, found, f"{found.__name__} has no `async def run(self, node)`")
    for method in ("run", "serve"):
        if not inspect.iscoroutinefunction(getattr(algorithm, method)):
            raise _at(source, found, f"`{method}` of {found.__name__} must be `async def {method}(self, node)`")
        if len(inspect.signature(getattr(algorithm, method)).parameters) != 1:
            raise _at(source, found, f"`{method}` of {found.__name__} must take one argument: the node")
    return algorithm


def choose_sharing(name: str, options: Mapping[str, object], random: Random) -> Sharing:
    """The way of sharing of that name; its random stream is the node's own."""
    source, found = _class(name, SHARINGS, Sharing)
    sharing = _make(source, found, {"random": random, **options})
    assert isinstance(sharing, Sharing)  # noqa: S101 - `_class` has looked
    return sharing


def source_of(algorithm: str) -> str:
    """Where an algorithm's class is, as `module:Class` or `file.py:Class`."""
    return algorithm if is_code(algorithm) else ALGORITHMS[algorithm].code


def is_own(experiment: Experiment) -> bool:
    """Whether the algorithm or the sharing is a researcher's own."""
    return is_code(experiment.algorithm.name) or is_code(experiment.sharing.name)


def waits(experiment: Experiment) -> bool | None:
    """Whether all nodes wait for others in every round; None where the researcher's own algorithm does not say."""
    chosen = experiment.algorithm
    exchange = exchange_of(chosen.name, chosen.options)
    if exchange is not None:
        return exchange.waits
    return _said(choose_algorithm(chosen.name, chosen.options), chosen.name)[0]


def declared(experiment: Experiment, parameters: int | None, random: Random) -> Declared | None:
    """What a researcher's own algorithm and sharing say of themselves; None where both come with the package."""
    if not is_own(experiment):
        return None
    algorithm, sharing = experiment.algorithm, experiment.sharing
    told_waits, told_to, told_bytes = None, None, None
    if is_code(algorithm.name):
        told_waits, told_to = _said(choose_algorithm(algorithm.name, algorithm.options), algorithm.name)
    if is_code(sharing.name) and parameters is not None:
        made = choose_sharing(sharing.name, sharing.options, random)
        told_bytes = call(sharing.name, made.message_bytes, parameters)
        if told_bytes is not None and (type(told_bytes) is not int or told_bytes < 0):
            told = f"`message_bytes` must give a number of bytes or None, not {told_bytes!r}"
            raise _at(sharing.name, type(made), told)
    return Declared(waits=told_waits, sends_to=told_to, message_bytes=told_bytes)


def _said(algorithm: Algorithm, source: str) -> tuple[bool | None, int | Literal["neighbours"] | None]:
    """Its `waits` and `sends_to`; raises CodeProblem where they are no such thing."""
    found, to = algorithm.waits, algorithm.sends_to
    if found is not None and type(found) is not bool:
        raise _at(source, type(algorithm), f"`waits` must be True, False or None, not {found!r}")
    if to is not None and to != ALL_NEIGHBOURS and (type(to) is not int or to < 0):
        raise _at(source, type(algorithm), f"`sends_to` must be a number, {ALL_NEIGHBOURS!r} or None, not {to!r}")
    return found, to


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
        raise _at(source, found, f"{found.__name__} cannot be made with these options: {problem}") from None
    return call(source, found, **options)


def _at(source: str, found: type, message: str) -> CodeProblem:
    try:
        line = inspect.getsourcelines(found)[1]
    except (OSError, TypeError):
        return CodeProblem(message, _file(source))
    return CodeProblem(message, _file(source), line)


def _file(source: str) -> str | None:
    path = file_of(source)
    return path.name if path else None
