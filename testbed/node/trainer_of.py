"""The trainer of an experiment.

Takes an `Experiment` and its data set, gives a `Trainer`; touches nothing.
"""

from __future__ import annotations

from testbed.experiment.language import Experiment
from testbed.node.data.dataset import DataSet
from testbed.node.training import Settings, Trainer


def make_trainer(experiment: Experiment, dataset: DataSet, seed: int) -> Trainer:
    """The trainer for the models of all nodes."""
    training = experiment.training
    settings = Settings(
        lr=training.lr,
        batch=training.batch,
        steps=training.steps,
        epochs=training.epochs,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
    )
    return Trainer(experiment.model.name, experiment.model.options, dataset, settings, seed)
