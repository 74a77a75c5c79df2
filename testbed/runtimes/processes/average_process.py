"""Evaluates averages of models, one after the other, each in a process of its own that yields to training.

Takes control's orders, gives scores over its descriptor; forks processes that end by themselves. They compute in slots
that no training node wants, or one more process would be at work than there are cores.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol

from testbed.node.compute_slots import ComputeSlots
from testbed.node.evaluation import Turn
from testbed.node.life import TOLD, failure_of
from testbed.node.training_process import fork_worker
from testbed.node.world import Score, Vector
from testbed.protocol.message import encode
from testbed.protocol.nodes import SLOTS
from testbed.protocol.zygote import AverageEvaluated, EvaluateAverage
from testbed.runtimes.averaging import evaluate_average
from testbed.runtimes.processes.shared_models import ModelSlots

_PAUSE_S = 0.005
_PATIENCE_S = 0.2
"""Where training always wants all slots, an evaluation takes its turn so often, for a few milliseconds."""


class Evaluate(Protocol):
    """Evaluates a model, each part of that within `turn`."""

    def __call__(self, vector: Vector, /, *, turn: Turn) -> Score: ...


class AverageEvaluator:
    """At most one average at a time."""

    def __init__(
        self, models: ModelSlots, evaluate: Evaluate, slots: Callable[[], ComputeSlots], control: socket.socket
    ) -> None:
        """`slots` opens a process's own way to them."""
        self._slots = slots
        self._models = models
        self._evaluate = evaluate
        self._control = control
        self._orders: deque[EvaluateAverage] = deque()
        self._current: EvaluateAverage | None = None

    def ask(self, order: EvaluateAverage) -> None:
        self._orders.append(order)

    def clear_before_life(self, rank: int) -> None:
        """Of what a node has left only models of orders stay: it may have been killed before it told of a slot."""
        orders = [*self._orders, *([] if self._current is None else [self._current])]
        needed = {slot for order in orders for each, slot in zip(order.ranks, order.slots, strict=True) if each == rank}
        slots = [slot for slot in range(SLOTS) if slot not in needed]
        self._models.clear([rank] * len(slots), slots)

    def begin(self, in_child: Callable[[], None]) -> int | None:
        """The process id of one that works on the next order; None when there is none, or one is at work.

        What the child has inherited and must not keep, `in_child` closes.
        """
        if self._current is not None or not self._orders:
            return None
        order = self._current = self._orders.popleft()

        def body() -> None:
            in_child()
            with suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            self._control.send(encode(self._outcome_of(order)))

        try:
            return fork_worker(body)
        except OSError as problem:
            self._done(f"the process that evaluates it could not be started: {problem.strerror}")
            return None

    def over(self, status: int) -> None:
        """It has ended, as the operating system says it."""
        self._done("the process that evaluates it ended before it was done" if status else None)

    def _done(self, problem: str | None) -> None:
        """Its models are not needed any more; control is told of a problem."""
        order, self._current = self._current, None
        if order is None:
            return
        self._models.clear(order.ranks, order.slots)
        if problem is not None:
            with suppress(OSError):
                self._control.send(encode(AverageEvaluated(order.round, problem=problem)))

    def _outcome_of(self, order: EvaluateAverage) -> AverageEvaluated:
        try:
            evaluate = partial(self._evaluate, turn=partial(turn, self._slots()))
            found = evaluate_average(self._models.vectors(order.ranks, order.slots), evaluate)
        except TOLD as problem:
            return AverageEvaluated(order.round, problem=failure_of(problem).message)
        except (OSError, ValueError) as problem:
            return AverageEvaluated(order.round, problem=f"a model that a node left cannot be read: {problem}")
        return AverageEvaluated(order.round, found.accuracy, found.loss, found.consensus_distance)


@contextmanager
def turn(slots: ComputeSlots) -> Iterator[None]:
    """Within it a slot is held: one that is free, or else, after a while, the one whose turn has come."""
    until_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until_s:
        with slots.one_if_free() as is_free:
            if is_free:
                yield
                return
        time.sleep(_PAUSE_S)
    with slots.one():
        yield
