"""Checks the code that an experiment names before a run: whether it loads, and is what it should be.

Takes an experiment, gives the first problem; runs the named files and modules, in this process.

The same command runs this code anyway: it calls an overlay's and a data set's function for the plan, and makes the
model to know its size. A separate process would have to load torch again, which takes most of the check's time. Code
that hangs while it is loaded has to be interrupted by its author in either case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from testbed.code import CodeProblem, file_of, is_code, load_object
from testbed.experiment.language import Algorithm, Experiment, Sharing
from testbed.node.choose import check_server, choose_algorithm, choose_sharing, message_bytes_of


@dataclass(frozen=True)
class WrongCode:
    """A problem that every node, or the planning of the run, would meet."""

    key: tuple[str, str]
    """The experiment's key that names the code."""
    problem: CodeProblem


def wrong_code(experiment: Experiment) -> WrongCode | None:
    """None if all named code can be used, as far as can be told without data."""
    algorithm, sharing = experiment.algorithm, experiment.sharing
    checks: dict[tuple[str, str], tuple[str, Callable[[], object]]] = {
        ("algorithm", "name"): (algorithm.name, lambda: check_algorithm(algorithm)),
        ("sharing", "name"): (sharing.name, lambda: _sharing(sharing)),
        ("model", "name"): (experiment.model.name, lambda: _callable(experiment.model.name)),
        ("data", "name"): (experiment.data.name, lambda: _callable(experiment.data.name)),
        ("overlay", "kind"): (experiment.overlay.kind, lambda: _callable(experiment.overlay.kind)),
    }
    for key, (name, check) in checks.items():
        try:
            if is_code(name):
                check()
        except CodeProblem as problem:
            return WrongCode(key, problem)
    return None


def check_algorithm(chosen: Algorithm) -> None:
    """Raises CodeProblem unless the algorithm can be made, and has the server that it needs."""
    made = choose_algorithm(chosen.name, chosen.options)
    if is_code(chosen.name):  # of those built in, a plan knows it
        check_server(chosen.name, made, has_server=chosen.server is not None)


def _sharing(chosen: Sharing) -> None:
    made = choose_sharing(chosen.name, chosen.options, Random(0))  # noqa: S311 - draws nothing
    message_bytes_of(chosen.name, made, 1)


def _callable(name: str) -> None:
    if not callable(load_object(name)):
        path = file_of(name)
        raise CodeProblem(f"`{name}` is neither a class nor a function", path.name if path else None)
