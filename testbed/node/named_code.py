"""Code that an experiment names, looked at before a run is made of it: can it be loaded, and is it what it should be.

Takes an experiment, gives the first thing that is wrong; runs the files and modules that it names, in this process.

That is no more than the same command does with them anyhow: it calls an overlay's and a data set's function for the
plan, and makes the model to know its size. A process apart would load torch once more, which is most of what the check
takes; and code that hangs while it is loaded has to be interrupted in either, by whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from testbed.code import CodeProblem, file_of, is_code, load_object
from testbed.experiment.language import Experiment, Sharing
from testbed.node.choose import choose_algorithm, choose_sharing, message_bytes_of


@dataclass(frozen=True)
class WrongCode:
    """What every node would meet, or who makes the run."""

    key: tuple[str, str]
    """Of the experiment: what names it."""
    problem: CodeProblem


def wrong_code(experiment: Experiment) -> WrongCode | None:
    """Nothing where all that is named can be used, as far as that shows without data."""
    algorithm, sharing = experiment.algorithm, experiment.sharing
    checks: dict[tuple[str, str], tuple[str, Callable[[], object]]] = {
        ("algorithm", "name"): (algorithm.name, lambda: choose_algorithm(algorithm.name, algorithm.options)),
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


def _sharing(chosen: Sharing) -> None:
    made = choose_sharing(chosen.name, chosen.options, Random(0))  # noqa: S311 - draws nothing
    message_bytes_of(chosen.name, made, 1)


def _callable(name: str) -> None:
    if not callable(load_object(name)):
        path = file_of(name)
        raise CodeProblem(f"`{name}` is neither a class nor a function", path.name if path else None)
