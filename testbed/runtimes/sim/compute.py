"""A node's computing in virtual time: the pool does the arithmetic, the experiment says how long it takes.

Takes models, gives losses and scores; touches the pool's shared memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import numpy as np

from testbed.code import CodeProblem
from testbed.node.pace import end_of_work
from testbed.node.training_settings import ComputingLost, TrainingFailed
from testbed.node.world import Pending, Score, Trained, Vector
from testbed.plan.model import NodePlan
from testbed.runtimes.sim.clock import NodeClock
from testbed.runtimes.sim.pool import Job, TrainingPool
from testbed.runtimes.sim.pool_worker import Arena


@dataclass(frozen=True)
class Shared:
    """What all nodes of a run compute with."""

    pool: TrainingPool
    arena: Arena
    initial: Vector
    samples: tuple[int, ...]
    """By learner."""
    steps_per_round: tuple[int, ...]
    tested_on: str
    evaluation_s: float
    """How long trying a model takes on a device of factor 1, where that counts."""


class SimCompute:
    """One node's share of the pool."""

    def __init__(self, shared: Shared, plan: NodePlan, clock: NodeClock) -> None:
        self._shared = shared
        self._clock = clock
        self._row = plan.node.rank
        self._learner = plan.node.learner
        self._pace = plan.node.pace
        self._step_s = plan.ms_per_step / 1000
        self._job: Job | None = None

    @property
    def parameters(self) -> int:
        return self._shared.initial.size

    @property
    def tested_on(self) -> str:
        return self._shared.tested_on

    @property
    def samples(self) -> int:
        return 0 if self._learner is None else self._shared.samples[self._learner]

    def initial(self) -> Vector:
        return self._shared.initial.copy()

    def steps_per_round(self) -> int:
        return 0 if self._learner is None else self._shared.steps_per_round[self._learner]

    async def train(self, model: Vector, first_step: int, steps: int) -> Trained:
        before = self._shared.arena.model[self._row]
        before[:] = model
        job = self._shared.pool.train(self._row, self._own_data(), first_step, steps)
        loss = await self._takes(job, steps * self._step_s)
        after = self._shared.arena.trained[self._row]
        if np.array_equal(model, before):
            model[:] = after
        else:  # others were mixed in meanwhile: they stay, and the training is added
            model += after - before
        return Trained(loss, before, after)

    async def gradient(self, model: Vector, step: int) -> tuple[float, Vector]:
        self._shared.arena.model[self._row][:] = model
        job = self._shared.pool.gradient(self._row, self._own_data(), step)
        loss = await self._takes(job, self._step_s)
        return loss, self._shared.arena.trained[self._row].copy()

    def evaluate(self, model: Vector) -> Pending:
        return self._shared.pool.evaluate(model, -1 if self._learner is None else self._learner)

    async def evaluate_inline(self, model: Vector) -> Score:
        pending = self.evaluate(model)
        await self._pass(self._shared.evaluation_s)
        return pending.result()

    def begin_anew(self) -> None:
        """No momentum is left from an earlier life."""
        if self._shared.arena.velocity is not None:
            self._shared.arena.velocity[self._row] = 0

    def abandon(self) -> None:
        """The node is dead: what the pool still does for it must not be mistaken for its next life's."""
        if self._job is not None:
            with contextlib.suppress(TrainingFailed, CodeProblem, ComputingLost):
                self._job.result()
            self._job = None

    def _own_data(self) -> int:
        assert self._learner is not None, "a node that does not learn has no data to train on"  # noqa: S101
        return self._learner

    async def _takes(self, job: Job, seconds: float) -> float:
        """The result of a job, when as much emulated time has passed as it takes."""
        self._job = job
        await self._pass(seconds)
        self._job = None
        return job.result()

    async def _pass(self, seconds: float) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        at = end_of_work(self._clock.now(), seconds, self._pace)

        def done() -> None:
            if not over.done():
                over.set_result(None)

        alarm = self._clock.work_until(at, done)
        try:
            await over
        finally:
            alarm.cancel()
