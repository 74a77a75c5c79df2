"""The computing of a node in runs of real processes.

Takes models, gives losses and scores; has a thread that computes. In mode `paced`, a local step takes the emulated time
of the plan: a node that is done earlier waits, and excess time is counted, waking up included. In mode `measured`, a
step takes as long as the computation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from testbed.code import CodeProblem
from testbed.node.compute_slots import ComputeSlots
from testbed.node.pace import end_of_work
from testbed.node.real_clock import RealClock
from testbed.node.real_evaluation import PieceWork
from testbed.node.real_thread import PAUSE_S, ComputeThread
from testbed.node.training_process import return_freed_memory
from testbed.node.training_settings import TrainingFailed
from testbed.node.world import Score, Trained, Vector
from testbed.plan.model import NodePlan

if TYPE_CHECKING:
    from testbed.node.training import Trainer
    from testbed.node.training_batch import Indices

_Result = TypeVar("_Result")

_TOLERANCE_S = 0.002
"""In real time: work that ends later than this is counted as late."""
_COARSE_S = 0.001
"""In real time: the precision of an event loop's alarms; a step may be only ten times as long."""


_TURNS = 3
"""Turns of the event loop: a message is read in one, and handled in the next."""
_DENSE = 128
"""Nodes per slot."""


@dataclass
class Overruns:
    """Work that took longer than the plan has it, in emulated seconds."""

    works: int = 0
    """Number of all works."""
    late: int = 0
    worst_s: float = 0.0
    """The largest lateness."""
    added_s: float = 0.0
    """Sum of all lateness: the node's emulated time is longer by this."""


@dataclass(frozen=True, eq=False)
class _Work:
    """Work under way: its beginning, and when it is due, in emulated time."""

    begin_s: float
    due_t: float


@dataclass(frozen=True)
class Own:
    """What one node computes with; made before the node is forked, and shared copy-on-write."""

    trainer: Trainer
    samples: Indices
    """Its training samples; none for a node that does not learn."""
    tests: Indices
    """Test samples for evaluations of its models."""
    tested_on: str
    rooted_loss: bool
    """Whether the loss of an evaluation is the root of a mean, as for ratings."""
    evaluation_s: float
    """Emulated time of an inline evaluation on a device of factor 1."""


def is_dense(nodes: int, slots: int) -> bool:
    """Whether so many nodes share the slots that each trains rarely. Then none keeps memory for its next step."""
    return nodes >= _DENSE * slots


class RealCompute:
    """The `Compute` of a node in a process of its own."""

    def __init__(self, own: Own, plan: NodePlan, clock: RealClock, slots: ComputeSlots | None = None) -> None:
        self._own = own
        self._is_dense = slots is not None and is_dense(len(plan.ranks), slots.count)
        self._clock = clock
        self._slots = slots
        self._learner = plan.node.learner
        self._pace = plan.node.pace
        self._paced = plan.experiment.compute.mode == "paced"
        self._step_s = plan.ms_per_step / 1000
        # All nodes of a host together poll for a free slot as often as one node alone would.
        crowd = 1.0 if slots is None else max(1.0, len(plan.ranks) / slots.count)
        self._thread = ComputeThread(PAUSE_S * crowd)
        self._evaluations: list[PieceWork] = []
        self._trained = np.empty(own.trainer.parameters, np.float32)
        momentum = plan.experiment.training.momentum > 0
        self._velocity = np.zeros(own.trainer.parameters, np.float32) if momentum else None
        self.overruns = Overruns()
        self._under_way: set[_Work] = set()
        """More than one if an algorithm trains twice at once."""
        self._stood: list[tuple[float, float]] = []
        """When this node was paused on purpose, in emulated time."""

    def stood(self, since_s: float, until_s: float) -> None:
        """Records a deliberate pause, by CLOCK_MONOTONIC, which does not count as lateness."""
        self._stood.append((self._clock.at(since_s), self._clock.at(until_s)))

    @property
    def note(self) -> str | None:
        """A problem worth a note."""
        return self._thread.note

    @property
    def parameters(self) -> int:
        return self._own.trainer.parameters

    @property
    def samples(self) -> int:
        return len(self._own.samples) if self._learner is not None else 0

    @property
    def tested_on(self) -> str:
        return self._own.tested_on

    def initial(self) -> Vector:
        return self._own.trainer.initial()

    def steps_per_round(self) -> int:
        return self._own.trainer.steps_per_round(self.samples) if self._learner is not None else 0

    async def warm(self, *, is_late: bool = False) -> None:
        """Does the work of a round once, in the computing thread, with this node's own data; the results are dropped.

        The first time, pages shared with the parent process are copied, and libraries initialise themselves. Emulated
        time does not count that. A late node does only what is necessary, since other nodes are at work.
        """
        trainer, learner = self._own.trainer, self._learner
        model = trainer.initial()

        def work() -> None:
            with suppress(TrainingFailed, CodeProblem):  # the same step in a round will report it
                if learner is not None:
                    velocity = None if self._velocity is None else np.zeros_like(self._velocity)
                    trainer.train(
                        model,
                        learner=learner,
                        indices=self._own.samples,
                        first_step=0,
                        steps=1,
                        velocity=velocity,
                        out=self._trained,
                    )
                if not is_late:
                    self._evaluation(model).advance()
            if self._is_dense:
                return_freed_memory()

        await self._thread.do(lambda: self._in_a_slot(work))

    async def train(self, model: Vector, first_step: int, steps: int) -> Trained:
        before, out, learner = model.copy(), self._trained, self._own_data()

        def work() -> float:
            loss = self._own.trainer.train(
                before,
                learner=learner,
                indices=self._own.samples,
                first_step=first_step,
                steps=steps,
                velocity=self._velocity,
                out=out,
            )
            if self._is_dense:
                return_freed_memory()
            return loss

        loss = await self._takes(work, steps * self._step_s)
        if np.array_equal(model, before):
            model[:] = out
        else:  # other models were mixed in meanwhile: they stay, and the training's change is added
            model += out - before
        return Trained(loss, before, out)

    async def gradient(self, model: Vector, step: int) -> tuple[float, Vector]:
        before, out, learner = model.copy(), np.empty_like(model), self._own_data()

        def work() -> float:
            return self._own.trainer.gradient(before, learner=learner, indices=self._own.samples, step=step, out=out)

        loss = await self._takes(work, self._step_s)
        return loss, out

    def evaluate(self, model: Vector) -> PieceWork:
        """Evaluates when there is nothing to train; `result` waits for that."""
        work = self._evaluation(model)
        self._evaluations = [each for each in self._evaluations if not each.is_done] + [work]
        self._thread.do_when_idle(lambda: self._advance(work))
        return work

    def _advance(self, work: PieceWork) -> bool | None:
        """Does a piece of the evaluation if a slot is free that no training waits for; else None."""
        if self._slots is None:
            return work.advance()
        with self._slots.one_if_free() as is_free:
            return work.advance() if is_free else None

    async def evaluate_inline(self, model: Vector) -> Score:
        work = self._evaluation(model)

        def whole() -> Score:
            while not work.advance():
                pass
            return work.result()

        return await self._takes(whole, self._own.evaluation_s)

    def close(self) -> None:
        """Ends the thread and drops unfinished evaluations."""
        self._thread.close()
        for each in self._evaluations:
            each.give_up(RuntimeError("the node ended before the model was evaluated"))
        if self._slots is not None:
            self._slots.close()

    def _evaluation(self, model: Vector) -> PieceWork:
        return PieceWork(self._own.trainer, model, self._own.tests, root=self._own.rooted_loss)

    def _own_data(self) -> int:
        assert self._learner is not None, "a node that does not learn has no data to train on"  # noqa: S101
        return self._learner

    async def _takes(self, work: Callable[[], _Result], nominal_s: float) -> _Result:
        """The result of work, after the emulated time that it takes."""
        if not self._paced:
            return await self._thread.do(lambda: self._in_a_slot(work))
        begin_s = self._clock.now()
        due_t = end_of_work(begin_s, nominal_s, self._pace)
        under_way = _Work(begin_s, due_t)
        self._under_way.add(under_way)
        try:
            result = await self._thread.do(lambda: self._in_a_slot(work))
            await self._until(due_t)
            if self._is_late(self._late_s(under_way)):
                for _ in range(_TURNS):  # a message of control about a deliberate pause is handled first
                    await asyncio.sleep(0)
            self.overruns.works += 1
            return result
        finally:  # the run may end before the work does
            self._count(self._late_s(under_way))
            self._under_way.discard(under_way)

    def _in_a_slot(self, work: Callable[[], _Result]) -> _Result:
        slot: AbstractContextManager[None] = nullcontext() if self._slots is None else self._slots.one()
        with slot:
            return work()

    def behind_s(self) -> float:
        """Lateness of the work under way so far."""
        return sum(map(self._late_s, self._under_way))

    def _late_s(self, work: _Work) -> float:
        """Lateness of a work, without deliberate pauses."""
        now_s = self._clock.now()
        stood_s = sum(max(0.0, min(now_s, until) - max(work.begin_s, since)) for since, until in self._stood)
        return max(0.0, now_s - stood_s - work.due_t)

    def _is_late(self, late_s: float) -> bool:
        return late_s > _TOLERANCE_S / self._clock.time_scale

    def _count(self, late_s: float) -> None:
        over = self.overruns
        over.late += self._is_late(late_s)
        over.worst_s = max(over.worst_s, late_s)
        over.added_s += late_s

    async def _until(self, t: float) -> None:
        """Waits until that time, with a precision of a tenth of a millisecond on an idle machine."""
        coarse_s = _COARSE_S / self._clock.time_scale
        if self._clock.now() < t - coarse_s:
            await self._alarm(t - coarse_s)
        time.sleep(max(0.0, t - self._clock.now()) * self._clock.time_scale)

    async def _alarm(self, t: float) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done() -> None:
            if not over.done():
                over.set_result(None)

        alarm = self._clock.call_at(t, done)
        try:
            await over
        finally:
            alarm.cancel()
