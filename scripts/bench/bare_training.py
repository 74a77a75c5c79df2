"""The yardstick of runs: the same steps and evaluations in as many processes as there are cores, and nothing else.

Takes an experiment, gives steps and evaluations per second; starts and ends processes.
"""

from __future__ import annotations

import os
import resource
from contextlib import nullcontext
from time import perf_counter
from typing import NamedTuple

from testbed.experiment.language import Experiment
from testbed.node.data.experiment_data import partition_data
from testbed.node.own import material
from testbed.node.trainer_of import make_trainer
from testbed.node.training_process import fork_worker
from testbed.node.training_speed import bare_loops

CORES = os.cpu_count() or 1


class BareTraining(NamedTuple):
    """What bare loops need."""

    steps_per_s: float
    """Of all processes together."""
    processor_s: float
    """Of one step."""


def bare_training(experiment: Experiment, learners: int, seed: int, rounds: int, steps: int) -> BareTraining:
    """Rounds of so many steps for every learner; each process trains a learner more, to warm up."""
    data = partition_data(experiment, learners, seed)
    trainer = make_trainer(experiment, data.dataset, seed)
    before = processor_s(resource.RUSAGE_CHILDREN)
    speed = bare_loops(trainer, data.parts, processes=CORES, rounds=rounds, steps=steps)
    taken = processor_s(resource.RUSAGE_CHILDREN) - before
    warming = min(CORES, learners)
    return BareTraining(speed.steps_per_s, taken / ((learners * rounds + warming) * steps))


def bare_evaluations_per_s(experiment: Experiment, learners: int, seed: int, each: int = 40) -> float:
    """Of all processes together, each with so many evaluations on the samples of all."""
    made = material(experiment, learners, seed, 1.0)
    vector = made.trainer.initial()

    def evaluate_often() -> None:
        for _ in range(each):
            made.evaluate_average(vector, turn=nullcontext)

    evaluate_often()  # what is set up when it is first done must not count
    began = perf_counter()
    for pid in [fork_worker(evaluate_often) for _ in range(CORES)]:
        os.waitpid(pid, 0)
    return CORES * each / (perf_counter() - began)


def processor_s(who: int) -> float:
    """Of this process or of its ended children."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime
