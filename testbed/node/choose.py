"""From the names in the plan to the code: algorithms and ways of sharing, built in or a researcher's own.

Takes names and options, gives objects. What is wrong with code that is not ours is told as `CodeProblem`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from random import Random

from testbed.code import CodeProblem, call, file_of, is_code, load_object
from testbed.node.algorithm import Algorithm
from testbed.node.sharing.base import Sharing

ALGORITHMS = {
    "dpsgd": "testbed.node.algorithms.dpsgd:DPSGD",
    "epidemic": "testbed.node.algorithms.epidemic:Epidemic",
    "fedavg": "testbed.node.algorithms.fedavg:FedAvg",
    "parameter-server": "testbed.node.algorithms.parameter_server:ParameterServer",
}
SHARING = {
    "full": "testbed.node.sharing.base:Sharing",
    "random": "testbed.node.sharing.random_sampling:RandomSampling",
    "topk": "testbed.node.sharing.topk:TopK",
}


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
    source, found = _class(name, SHARING, Sharing)
    sharing = _make(source, found, {"random": random, **options})
    assert isinstance(sharing, Sharing)  # noqa: S101 - `_class` has looked
    return sharing


def _class(name: str, built_in: Mapping[str, str], base: type) -> tuple[str, type]:
    source = name if is_code(name) else built_in[name]
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
