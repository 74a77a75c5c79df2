"""Trains and evaluates for a simulation: in worker processes, or in this one.

Takes jobs on rows of an arena, gives their outcomes; touches processes. An outcome depends only on what is in the row
and on the job's own numbers: not on how many workers there are, nor on the order in which jobs are handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from testbed.node.evaluation_samples import evaluation_parts
from testbed.node.training import Trainer
from testbed.node.training_batch import Indices
from testbed.node.training_settings import Score
from testbed.runtimes.sim.pool_processes import WorkerProcesses
from testbed.runtimes.sim.pool_records import Order, Outcome, Work, WorkerFailed, WorkerLost
from testbed.runtimes.sim.pool_worker import Arena, Desk

__all__ = ["EvaluationJob", "Job", "TrainingPool", "WorkerFailed", "WorkerLost"]


class _UnderWay:
    """A job: handed in, and some time later with an outcome."""

    def __init__(self, pool: TrainingPool, order: Order) -> None:
        self.order = order
        self.outcome: Outcome | None = None
        """None until it is known."""
        self._pool = pool

    def _wait(self) -> float | Score:
        outcome = self._pool.wait(self)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Job(_UnderWay):
    """Training under way."""

    def result(self) -> float:
        """Waits for the loss, and raises what went wrong: TrainingFailed, CodeProblem or WorkerLost."""
        loss = self._wait()
        assert isinstance(loss, float)  # noqa: S101 - the outcome of its kind of work
        return loss


class EvaluationJob(_UnderWay):
    """An evaluation under way."""

    is_done = True
    """Waiting for it takes no emulated time."""

    async def ended(self) -> None:
        """At once, since nothing may depend on when it is."""

    def result(self) -> Score:
        """Waits for the score, and raises what went wrong: TrainingFailed, CodeProblem or WorkerLost."""
        score = self._wait()
        assert isinstance(score, Score)  # noqa: S101 - the outcome of its kind of work
        return score


_Kind = TypeVar("_Kind", bound=_UnderWay)


class TrainingPool:
    """Carries out jobs with some workers; with none, in this process, when a result is asked for.

    The workers are forked here, from a process that has everything loaded: what the trainer, the parts and the tests
    hold must not be changed afterwards. Torch must not have used several threads before. Training goes before
    evaluation, without starving it.
    """

    def __init__(
        self,
        trainer: Trainer,
        arena: Arena,
        parts: Sequence[Indices],
        tests: Sequence[Indices],
        *,
        samples: int,
        seed: int,
        workers: int,
    ) -> None:
        """Parts and tests by learner; an evaluation takes so many of the test samples."""
        trainer.warm()
        self._arena = arena
        tried = evaluation_parts(trainer.dataset, tests, samples, seed)
        self._desk = Desk(trainer, arena, parts, tried)
        self._numbers = 0
        self._jobs: dict[int, _UnderWay] = {}
        """Those without an outcome, by number, in the order in which they were handed in."""
        self._free_slots = list(range(len(arena.evaluated)))
        self._workers = WorkerProcesses(self._desk, workers) if workers else None

    @property
    def workers(self) -> list[int]:
        """Process ids."""
        return [] if self._workers is None else self._workers.pids

    def train(self, row: int, learner: int, first_step: int, steps: int) -> Job:
        """Local steps of a learner from `arena.model[row]` into `arena.trained[row]`: mean loss.

        Neither row may be written to until the result has been taken, nor may there be two jobs of a row.
        """
        return self._hand_in(Job(self, Order(self._next(), Work.TRAIN, row, first_step, steps, learner)))

    def gradient(self, row: int, learner: int, step: int) -> Job:
        """The gradient of one minibatch at `arena.model[row]` into `arena.trained[row]`: loss."""
        return self._hand_in(Job(self, Order(self._next(), Work.GRADIENT, row, step, 1, learner)))

    def evaluate(self, vector: NDArray[np.float32], learner: int) -> EvaluationJob:
        """The score of a vector on a learner's test samples, or with -1 on those out of all. The vector is copied.

        Waits for the oldest evaluation when the arena has no place left for a copy.
        """
        while not self._free_slots:
            self.wait(next(job for job in self._jobs.values() if job.order.work is Work.EVALUATE))
        slot = self._free_slots.pop()
        self._arena.evaluated[slot] = vector
        return self._hand_in(EvaluationJob(self, Order(self._next(), Work.EVALUATE, slot, who=learner)))

    def wait(self, job: _UnderWay) -> Outcome:
        """The outcome of a job, be it a failure; raises WorkerLost when there will never be one."""
        while job.outcome is None:
            if self._workers is None:
                self._settle(job.order.number, self._desk.outcome(job.order))
            else:
                for number, outcome in self._workers.outcomes():
                    self._settle(number, outcome)
        return job.outcome

    def give_up(self) -> None:
        """Waiting for a job raises WorkerLost at once, now and later, whatever the workers do."""
        if self._workers is not None:
            self._workers.give_up()

    def close(self) -> None:
        """End the workers; jobs without an outcome never get one. May be called again."""
        if self._workers is not None:
            self._workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _hand_in(self, job: _Kind) -> _Kind:
        self._jobs[job.order.number] = job
        if self._workers is not None:
            self._workers.put(job.order)
        return job

    def _settle(self, number: int, outcome: Outcome) -> None:
        job = self._jobs.pop(number)
        job.outcome = outcome
        if job.order.work is Work.EVALUATE:
            self._free_slots.append(job.order.row)
