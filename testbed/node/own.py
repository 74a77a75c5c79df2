"""The material that nodes compute with: the data, its parts, and one trainer that has trained a step.

Takes an experiment, gives `Material`, and each node's share of it; reads data sets and researchers' code.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from random import Random

from testbed.code import CodeProblem
from testbed.experiment.language import Experiment
from testbed.node.choose import choose_algorithm, choose_sharing
from testbed.node.data.dataset import Kind
from testbed.node.data.experiment_data import PartitionedData, partition_data
from testbed.node.data.partition import test_parts
from testbed.node.evaluation import Turn
from testbed.node.evaluation_samples import evaluation_parts
from testbed.node.real_compute import Own
from testbed.node.trainer_of import make_trainer
from testbed.node.training import Trainer
from testbed.node.training_batch import Indices
from testbed.node.world import Score, Vector


@dataclass(frozen=True)
class Material:
    """The material of all nodes of a run: equal in every process that makes it."""

    experiment: Experiment
    data: PartitionedData
    trainer: Trainer
    tried: list[Indices]
    """Test samples for evaluations, by learner; last, those for averages."""
    ms_per_step: float

    def own(self, learner: int | None) -> Own:
        """One node's share; `learner` is None for a node that does not learn."""
        experiment = self.experiment
        ratings = self.data.dataset.kind is Kind.RATINGS
        return Own(
            trainer=self.trainer,
            samples=self.data.parts[learner or 0],
            tests=self.tried[-1 if learner is None else learner],
            tested_on="own-test" if ratings else "test",
            rooted_loss=ratings,
            evaluation_s=self.ms_per_step / 1000 * experiment.evaluation.samples / experiment.training.batch / 3,
        )

    def evaluate_average(self, vector: Vector, *, turn: Turn) -> Score:
        """Evaluates an average of models on samples of all learners."""
        return self.trainer.evaluate(vector, indices=self.tried[-1], on=self.trainer.dataset.test, turn=turn)


def material(experiment: Experiment, learners: int, seed: int, ms_per_step: float) -> Material:
    """Loads everything and trains one step; raises errors of the data or of a researcher's model."""
    data = partition_data(experiment, learners, seed)
    trainer = make_trainer(experiment, data.dataset, seed)
    trainer.warm()
    with suppress(CodeProblem):  # every node will report it
        choose_algorithm(experiment.algorithm.name, experiment.algorithm.options)
        choose_sharing(experiment.sharing.name, experiment.sharing.options, Random(0))  # noqa: S311 - draws nothing
    tests = test_parts(data.dataset, data.parts)
    tried = evaluation_parts(data.dataset, tests, experiment.evaluation.samples, seed)
    return Material(experiment, data, trainer, tried, ms_per_step)
