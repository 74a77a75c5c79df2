"""The shortest local step that this machine sustains with a given number of learners.

Takes an experiment, gives milliseconds; trains for a second or two, in processes of its own. It fetches nothing: steps
on random samples of the same shape take as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from testbed.cores import usable_cores
from testbed.experiment.language import Experiment
from testbed.node.data.experiment_data import partition_data
from testbed.node.declared import waits
from testbed.node.trainer_of import make_trainer
from testbed.node.training import Trainer
from testbed.node.training_batch import Indices
from testbed.node.training_cost import to_two_digits
from testbed.node.training_speed import bare_loops, sustained_ms_per_step
from testbed.runtimes.capacity import free_cores

_AT_MOST_S, _GLANCE_S = 0.7, 0.1
_AMPLE = 2.0
"""A chosen step that a short measurement finds so many times too long needs no longer measurement."""
_UNDISTURBED = 25
"""Percentile of measured steps that stands for an undisturbed step."""
_MOST_PARTS = 64
"""Limit of learners whose data are used in the measurement."""
_ROUND_S = 0.004
"""Processor time of a learner's round besides training and sending, on one core."""
_LEAST_MS = 50.0
"""The shortest round: shorter ones are disturbed by other activity of the machine."""


@dataclass(frozen=True)
class StepTimes:
    """How long a local step must take, in milliseconds of real time."""

    least: float
    """With less, this machine cannot train the learners even if it does nothing else."""
    sustained: float
    """With this one, to two digits, it has time for the network, too."""

    def sustained_at(self, time_scale: float) -> float:
        """`sustained` as emulated time."""
        return to_two_digits(self.sustained / time_scale)


def step_times(experiment: Experiment, learners: int, sending_s: float, chosen_ms: float = 0.0) -> StepTimes:
    """Measures the step times. What a learner sends in a round takes `sending_s` of processors' time. Call it before
    the run uses any cores.

    With `chosen_ms`, a step in real time, measures only as long as needed to tell whether that is long enough.
    """
    free = free_cores()  # before this process uses any
    data = partition_data(experiment, learners, experiment.seed, fetch=False)
    trainer = make_trainer(experiment, data.dataset, experiment.seed)
    steps = max(1, trainer.steps_per_round(data.sizes[0]))
    # Learners that wait for each other train at the same time, and send at the same time.
    sent_s = 0.0 if waits(experiment) else sending_s
    messages = learners * (_ROUND_S + sent_s) / usable_cores() / steps * 1000

    def within(seconds: float) -> StepTimes:
        steps_per_s = _steps_per_s(trainer, data.parts[:_MOST_PARTS], min(steps, 5), seconds, free)
        training = sustained_ms_per_step(steps_per_s, learners)
        sustained = to_two_digits(max(_LEAST_MS / steps, training + messages))
        return StepTimes(learners / steps_per_s * 1000, sustained)

    times = within(_GLANCE_S) if chosen_ms else None
    if times is None or times.sustained * _AMPLE > chosen_ms:
        times = within(_AT_MOST_S)
    return times


def sent_bytes_of(parameters: int | None, degree: int | None) -> int:
    """Bytes of a round in which a learner sends its whole model to every neighbour."""
    return 4 * (parameters or 0) * (degree or 1)


def _steps_per_s(trainer: Trainer, parts: Sequence[Indices], steps: int, at_most_s: float, free: float) -> float:
    """Steps a second of all cores together. `free` cores are available: training has the lowest priority."""
    cores = min(usable_cores(), len(parts))
    speed = bare_loops(trainer, parts, processes=cores, rounds=1_000_000, steps=steps, at_most_s=at_most_s)
    undisturbed_ms = float(np.percentile(speed.step_ms, _UNDISTURBED))
    return min(speed.steps_per_s, free * 1000 / undisturbed_ms)
