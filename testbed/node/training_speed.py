"""Measures how fast this machine trains, with loops of local steps alone.

Takes a trainer and parts, gives times; touches processes.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.node.training import Trainer
from testbed.node.training_batch import Indices
from testbed.node.training_cost import to_two_digits
from testbed.node.training_process import fork_worker, objects_shared

_HEADROOM = 1.25
"""Reserve for the network, for evaluation and for other programs of the machine."""


@dataclass(frozen=True)
class Speed:
    """Measurements of some processes that train at the same time."""

    processes: int
    step_ms: NDArray[np.float64]
    """One value per call of `train`: its time divided by its steps."""
    steps_per_s: float
    """Sum over all processes."""

    @property
    def median_ms(self) -> float:
        return float(np.median(self.step_ms))

    @property
    def p95_ms(self) -> float:
        return float(np.percentile(self.step_ms, 95))


def sustained_ms_per_step(steps_per_s: float, learners: int) -> float:
    """The shortest local step, in emulated time, that this many learners can sustain in real time, to two digits."""
    return to_two_digits(learners / steps_per_s * 1000 * _HEADROOM)


def bare_loops(
    trainer: Trainer,
    parts: Sequence[Indices],
    *,
    processes: int,
    rounds: int,
    steps: int,
    at_most_s: float = math.inf,
) -> Speed:
    """Runs some rounds of local steps for every learner, on its own vector; learners are distributed over processes.

    Processes begin together, and stop after a time limit even if rounds are left.
    """
    trainer.warm()
    with objects_shared():
        found = _run(trainer, parts, processes, steps, lambda loop: loop.run(rounds, at_most_s))
    begun, ended = min(each[0] for each in found), max(each[1] for each in found)
    step_ms = np.concatenate([each[2:] for each in found])
    return Speed(processes, step_ms, len(step_ms) * steps / float(ended - begun))


def _run(
    trainer: Trainer,
    parts: Sequence[Indices],
    processes: int,
    steps: int,
    run: Callable[[_Loop], NDArray[np.float64]],
) -> list[NDArray[np.float64]]:
    """The measurements of each process; they begin when all are ready."""
    ready, tell_ready = os.pipe()
    go, give_go = os.pipe()
    answers: list[int] = []
    pids: list[int] = []
    for number in range(processes):
        answer, tell = os.pipe()
        inherited = (ready, give_go, answer, *answers)

        def body(number: int = number, tell: int = tell, inherited: tuple[int, ...] = inherited) -> None:
            for descriptor in inherited:
                os.close(descriptor)
            loop = _Loop(trainer, parts, range(number, len(parts), processes), steps)
            loop.warm()
            os.write(tell_ready, b"r")
            os.read(go, 1)
            with suppress(BrokenPipeError):  # the measuring process has been interrupted meanwhile
                _write_all(tell, run(loop).tobytes())

        pids.append(fork_worker(body))
        os.close(tell)
        answers.append(answer)
    os.close(tell_ready)
    os.close(go)
    for _ in range(processes):
        os.read(ready, 1)
    os.close(give_go)
    found = [np.frombuffer(_read_all(answer), np.float64) for answer in answers]
    os.close(ready)
    for pid in pids:
        os.waitpid(pid, 0)
    if any(len(each) < 3 for each in found):
        raise RuntimeError("a process that trains ended before it had told its times")
    return found


class _Loop:
    """Some learners, one after the other."""

    def __init__(self, trainer: Trainer, parts: Sequence[Indices], learners: Sequence[int], steps: int) -> None:
        self._trainer = trainer
        self._parts = parts
        self._learners = learners
        self._steps = steps
        self._vectors = {learner: trainer.initial() for learner in learners}
        self._velocity = np.zeros(trainer.parameters, np.float32)

    def warm(self) -> None:
        """Trains a learner once: what is loaded when it is first used must not count."""
        self._train(self._learners[0], 0)

    def run(self, rounds: int, at_most_s: float) -> NDArray[np.float64]:
        """Its beginning and end on the clock that all processes share, and all times per step."""
        begun = ended = time.perf_counter()
        times: list[float] = []
        for number, learner in ((each, learner) for each in range(1, rounds + 1) for learner in self._learners):
            before, ended = ended, self._train(learner, number)
            times.append((ended - before) / self._steps * 1000)
            if ended - begun >= at_most_s:
                break
        return np.array([begun, ended, *times])

    def _train(self, learner: int, number: int) -> float:
        """The steps of a learner's round; gives the time at its end."""
        self._trainer.train(
            self._vectors[learner],
            learner=learner,
            indices=self._parts[learner],
            first_step=number * self._steps,
            steps=self._steps,
            velocity=self._velocity,
            out=self._vectors[learner],
        )
        return time.perf_counter()


def _write_all(descriptor: int, text: bytes) -> None:
    while text:
        text = text[os.write(descriptor, text) :]


def _read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()
