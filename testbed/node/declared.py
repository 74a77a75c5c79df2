"""The facts that a researcher's own algorithm and sharing declare, for plans and estimates.

Takes an experiment, gives `Declared`; runs the files and modules that it names. The facts of built-in code are in the
catalogue.
"""

from __future__ import annotations

from random import Random

from testbed.catalogue.algorithms import exchange_of
from testbed.code import CodeProblem, is_code
from testbed.experiment.language import Experiment
from testbed.node.choose import choose_algorithm, choose_sharing, message_bytes_of
from testbed.plan.model import Declared


def is_own(experiment: Experiment) -> bool:
    """Whether the algorithm or the sharing is a researcher's own."""
    return is_code(experiment.algorithm.name) or is_code(experiment.sharing.name)


def declared(experiment: Experiment, parameters: int) -> Declared | None:
    """None if both are built in; raises CodeProblem for code that cannot be used."""
    chosen, sharing = experiment.algorithm, experiment.sharing
    if not is_own(experiment):
        return None
    algorithm = choose_algorithm(chosen.name, chosen.options) if is_code(chosen.name) else None
    size = None
    if is_code(sharing.name):
        made = choose_sharing(sharing.name, sharing.options, Random(0))  # noqa: S311 - draws nothing
        size = message_bytes_of(sharing.name, made, parameters)
    return Declared(
        waits=None if algorithm is None else algorithm.waits,
        sends_to=None if algorithm is None else algorithm.sends_to,
        message_bytes=size,
    )


def waits(experiment: Experiment) -> bool | None:
    """Whether all nodes wait for others in every round; None if own code does not say, or cannot be loaded here."""
    chosen = experiment.algorithm
    exchange = exchange_of(chosen.name, chosen.options)
    if exchange is not None:
        return exchange.waits
    try:
        return choose_algorithm(chosen.name, chosen.options).waits
    except CodeProblem:
        return None
