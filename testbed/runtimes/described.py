"""Facts about data and model for a plan: sizes, and the time of a local step on the nominal device.

Takes an experiment, gives figures; fetches the data set on request, else uses the catalogue's figures; imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from testbed import __version__
from testbed.code import CodeProblem
from testbed.experiment.language import Experiment
from testbed.node.choose import choose_sharing
from testbed.node.data.experiment_data import partition_data
from testbed.node.data.fetch import Tell, silently
from testbed.node.declared import declared
from testbed.node.named_code import check_algorithm
from testbed.node.trainer_of import make_trainer
from testbed.node.training_cost import nominal_ms_per_step
from testbed.plan.model import Declared


@dataclass(frozen=True)
class Described:
    """Facts about an experiment; None for what is unknown because the model cannot be made."""

    samples: tuple[int, ...]
    samples_estimated: bool
    """The data set is not cached, and its partition depends on more than the catalogue says."""
    parameters: int | None = None
    nominal_ms_per_step: float | None = None
    declared: Declared | None = None
    """What the experiment's own code declares."""
    problem: CodeProblem | None = None
    """Faulty code. The run reports it with the name of the node that loaded it."""


def describe(experiment: Experiment, learners: int, *, fetch: bool, tell: Tell = silently) -> Described:
    """Sizes of partition and model, and the time of a step. Without `fetch`, uncached data are estimated.

    Does not raise for faulty code.
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
    """The error of making the algorithm or the sharing, which every node would get."""
    try:
        check_algorithm(experiment.algorithm)
        choose_sharing(experiment.sharing.name, experiment.sharing.options, Random(0))  # noqa: S311 - draws nothing
    except CodeProblem as problem:
        return problem
    return None


def versions() -> dict[str, str]:
    """The versions of testbed, torch and numpy."""
    import numpy
    import torch

    return {"testbed": __version__, "torch": str(torch.__version__), "numpy": numpy.__version__}
