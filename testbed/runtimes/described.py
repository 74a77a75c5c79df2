"""What a plan must know of data and model before it is made: sizes, and what a step costs on the nominal device.

Takes an experiment, gives figures; fetches the data set when that is wanted, else goes by what the catalogue says of
it; imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from testbed import __version__
from testbed.code import CodeProblem
from testbed.experiment.language import Experiment
from testbed.node.choose import choose_algorithm, choose_sharing
from testbed.node.data.experiment_data import partition_data
from testbed.node.data.fetch import Tell, silently
from testbed.node.declared import declared
from testbed.node.trainer_of import make_trainer
from testbed.node.training_cost import nominal_ms_per_step
from testbed.plan.model import Declared


@dataclass(frozen=True)
class Described:
    """None for what a model that cannot be made leaves unknown."""

    samples: tuple[int, ...]
    samples_estimated: bool
    """The data set is not here, and its partition depends on more than the catalogue says."""
    parameters: int | None = None
    nominal_ms_per_step: float | None = None
    declared: Declared | None = None
    """What the experiment's own code says of itself."""
    problem: CodeProblem | None = None
    """Of code that is wrong: the run will tell, with the name of the node that met it."""


def describe(experiment: Experiment, learners: int, *, fetch: bool, tell: Tell = silently) -> Described:
    """Sizes of parts and model, and what a step costs. Without `fetch`, the same of data that is not here.

    Code that is wrong is no reason to raise here.
    """
    problem = _problem_of_choices(experiment)
    data = partition_data(experiment, learners, experiment.seed, tell=tell, fetch=fetch)
    try:
        trainer = make_trainer(experiment, data.dataset, experiment.seed)
        cost = nominal_ms_per_step(trainer, experiment.training.batch)
    except CodeProblem as of_model:
        return Described(data.sizes, data.is_estimated, problem=problem or of_model)
    said = None
    if problem is None:
        try:
            said = declared(experiment, trainer.parameters)
        except CodeProblem as of_code:
            problem = of_code
    return Described(data.sizes, data.is_estimated, trainer.parameters, cost, said, problem)


def _problem_of_choices(experiment: Experiment) -> CodeProblem | None:
    """What every node would meet when it makes its algorithm and its way of sharing."""
    try:
        choose_algorithm(experiment.algorithm.name, experiment.algorithm.options)
        choose_sharing(experiment.sharing.name, experiment.sharing.options, Random(0))  # noqa: S311 - draws nothing
    except CodeProblem as problem:
        return problem
    return None


def versions() -> dict[str, str]:
    """What a run was made with."""
    import numpy
    import torch

    return {"testbed": __version__, "torch": str(torch.__version__), "numpy": numpy.__version__}
