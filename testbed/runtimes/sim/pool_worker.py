"""What a worker of the pool does: take an order, carry it out in the arena, tell the outcome.

Takes orders from two pipes that all workers read, gives outcomes to one that all write; touches the arena: anonymous
memory that the run shares with its workers. It is there as long as a process holds a row, and has no name that could be
left behind. Pages that are never written cost nothing.
"""

from __future__ import annotations

import mmap
import os
import select
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.node.training import Trainer
from testbed.node.training_batch import Indices
from testbed.node.training_settings import Score
from testbed.runtimes.sim.pool_records import ORDER_BYTES, Order, Outcome, Work, pack_outcome

_TRAININGS_PER_EVALUATION = 4
"""Nodes wait for their training, and not yet for evaluations; but copies to evaluate are few, and must go on."""
_LINE = 16
"""Float32 values in a cache line: rows begin at one, so that no two workers write into the same."""


class Arena:
    """A vector of every kind per node, and some more to evaluate copies in. Make it before forking."""

    def __init__(self, rows: int, parameters: int, *, velocity: bool = False, evaluations: int = 16) -> None:
        self.rows = rows
        self.parameters = parameters
        self.model = _rows(rows, parameters)
        """Where a node's model is; its owner changes it only while no job of that row is under way."""
        self.trained = _rows(rows, parameters)
        """Where a job leaves what it made of the model."""
        self.velocity = _rows(rows, parameters) if velocity else None
        """What momentum remembers; zero at first."""
        self.evaluated = _rows(evaluations, parameters)
        """Copies of models to evaluate."""


def _rows(count: int, width: int) -> NDArray[np.float32]:
    stride = -(-width // _LINE) * _LINE
    memory = mmap.mmap(-1, max(1, count * stride) * 4)
    return np.frombuffer(memory, np.float32, count * stride).reshape(count, stride)[:, :width]


@dataclass(frozen=True)
class Desk:
    """All that an order is carried out with; the same in every process."""

    trainer: Trainer
    arena: Arena
    parts: Sequence[Indices]
    """Per learner: which training samples are its own."""
    tests: Sequence[Indices]
    """Per learner: which test samples its models are tried on; last, those for averages."""

    def outcome(self, order: Order) -> Outcome:
        """What comes of an order; failures are outcomes like others."""
        try:
            return self._carry_out(order)
        except Exception as problem:
            return problem

    def _carry_out(self, order: Order) -> float | Score:
        trainer, arena = self.trainer, self.arena
        if order.work is Work.EVALUATE:
            return trainer.evaluate(arena.evaluated[order.row], self.tests[order.who], on=trainer.dataset.test)
        vector, out, indices = arena.model[order.row], arena.trained[order.row], self.parts[order.who]
        if order.work is Work.GRADIENT:
            return trainer.gradient(vector, learner=order.who, indices=indices, step=order.first_step, out=out)
        return trainer.train(
            vector,
            learner=order.who,
            indices=indices,
            first_step=order.first_step,
            steps=order.steps,
            velocity=None if arena.velocity is None else arena.velocity[order.row],
            out=out,
        )


def work(desk: Desk, trainings: int, evaluations: int, outcomes: int) -> None:
    """Carry out orders until no process can write any more. All three are descriptors of pipes."""
    for order in Inbox(trainings, evaluations):
        try:
            os.write(outcomes, pack_outcome(order.number, desk.outcome(order)))
        except BrokenPipeError:
            return


class Inbox:
    """Orders, one after the other: training first, and now and then an evaluation."""

    def __init__(self, trainings: int, evaluations: int) -> None:
        self._trainings = trainings
        self._evaluations = evaluations
        self._in_a_row = 0
        self._poll = select.poll()
        for pipe in (trainings, evaluations):
            self._poll.register(pipe, select.POLLIN)

    def __iter__(self) -> Inbox:
        return self

    def __next__(self) -> Order:
        while True:
            pipes = [self._trainings, self._evaluations]
            if self._in_a_row >= _TRAININGS_PER_EVALUATION:
                pipes.reverse()
            for pipe in pipes:
                try:
                    # Records are written whole, and a pipe serves one reader at a time: a record is never shared.
                    record = os.read(pipe, ORDER_BYTES)
                except BlockingIOError:  # nothing there, or another worker was faster
                    continue
                if not record:
                    raise StopIteration
                self._in_a_row = self._in_a_row + 1 if pipe == self._trainings else 0
                return Order.unpack(record)
            self._poll.poll()
