"""The yardstick of runs: the same local steps in as many processes as there are cores, and nothing else.

Takes an experiment, gives steps per second; starts and ends processes.
"""

from __future__ import annotations

import os
import resource
from typing import NamedTuple

from testbed.experiment.language import Experiment
from testbed.node.data.experiment_data import partition_data
from testbed.node.trainer_of import make_trainer
from testbed.node.training_speed import bare_loops

CORES = os.cpu_count() or 1


class BareTraining(NamedTuple):
    """What bare loops need."""

    steps_per_s: float
    """Of all processes together."""
    processor_s: float
    """Of one step."""


def bare_training(experiment: Experiment, learners: int, seed: int, rounds: int, steps: int) -> BareTraining:
    """Rounds of so many steps for every learner; one more round is to warm up."""
    data = partition_data(experiment, learners, seed)
    trainer = make_trainer(experiment, data.dataset, seed)
    before = processor_s(resource.RUSAGE_CHILDREN)
    speed = bare_loops(trainer, data.parts, processes=CORES, rounds=rounds, steps=steps)
    taken = processor_s(resource.RUSAGE_CHILDREN) - before
    return BareTraining(speed.steps_per_s, taken / (learners * (rounds + 1) * steps))


def processor_s(who: int) -> float:
    """Of this process or of its ended children."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime
