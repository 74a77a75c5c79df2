"""What a plan must know of data and model before it is made: sizes, and what a step costs.

Takes an experiment, gives figures; fetches the data set when that is wanted, and imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed import __version__
from testbed.code import CodeProblem
from testbed.experiment.language import Experiment
from testbed.node.data.fetch import Tell, silently
from testbed.node.data.of_experiment import is_at_hand, share_out
from testbed.node.training_cost import nominal_ms_per_step
from testbed.runtimes.sim.prepare import make_trainer


@dataclass(frozen=True)
class Described:
    """None for what cannot be known yet: data that is not here, a model that cannot be made."""

    parameters: int | None = None
    samples: tuple[int, ...] | None = None
    nominal_ms_per_step: float | None = None


def describe(experiment: Experiment, learners: int, *, fetch: bool, tell: Tell = silently) -> Described:
    """Sizes of parts and model. Without `fetch`, data that is not here stays unknown.

    Code that is wrong is not reported here: the run will, with the name of the node that met it.
    """
    if not fetch and not is_at_hand(experiment.data.name):
        return Described()
    try:
        data = share_out(experiment, learners, experiment.seed, tell=tell)
    except CodeProblem:
        return Described()
    try:
        trainer = make_trainer(experiment, data.dataset, experiment.seed)
        cost = nominal_ms_per_step(trainer, experiment.training.batch)
    except CodeProblem:
        return Described(samples=data.sizes)
    return Described(trainer.parameters, data.sizes, cost)


def versions() -> dict[str, str]:
    """What a run was made with."""
    import numpy
    import torch

    return {"testbed": __version__, "torch": str(torch.__version__), "numpy": numpy.__version__}
