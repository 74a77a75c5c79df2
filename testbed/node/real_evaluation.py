"""Evaluations in small pieces, so that they can make way for training at any time.

Takes a model and samples, gives a score; touches nothing.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from testbed.node.training_settings import Score
from testbed.node.world import Vector

if TYPE_CHECKING:
    from testbed.node.training import Trainer
    from testbed.node.training_batch import Indices

_PIECE = 32
"""Samples in a piece: a few milliseconds of work."""


class PieceWork:
    """One evaluation under way; `result` waits for its end, `is_done` says whether it has ended."""

    def __init__(self, trainer: Trainer, vector: Vector, samples: Indices, *, root: bool) -> None:
        """With `root`, the loss is the root of the mean."""
        self._trainer = trainer
        self._vector = vector.copy()
        self._samples = samples
        self._root = root
        self._next = 0
        self._right: float | None = 0.0
        self._loss = 0.0
        self._problem: BaseException | None = None
        self._done = threading.Event()
        self._tell: Callable[[], object] | None = None
        """Wakes what waits in `ended`, from any thread."""

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    async def ended(self) -> None:
        """Waits for the end; only one task at a time may. To look again and again would keep from computing, where
        there are many nodes."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        self._tell = partial(loop.call_soon_threadsafe, over.set)
        if not self.is_done:  # it may have ended before there was something to wake
            await over.wait()

    def result(self) -> Score:
        self._done.wait()
        if self._problem is not None:
            raise self._problem
        count = len(self._samples)
        loss = self._loss / count
        accuracy = None if self._right is None else self._right / count
        return Score(accuracy, math.sqrt(loss) if self._root else loss, count)

    def advance(self) -> bool:
        """Does one piece; gives whether it was the last. Never raises."""
        try:
            self._one_piece()
        except BaseException as problem:
            self._problem = problem
        if self._problem is not None or self._next >= len(self._samples):
            self._end()
        return self.is_done

    def give_up(self, problem: BaseException) -> None:
        """Ends the evaluation with an error."""
        if not self.is_done:
            self._problem = problem
            self._end()

    def _end(self) -> None:
        self._vector = self._vector[:0]  # the memory of a model, in each node
        self._done.set()
        if self._tell is not None:
            self._tell()

    def _one_piece(self) -> None:
        chosen = self._samples[self._next : self._next + _PIECE]
        score = self._trainer.evaluate(self._vector, chosen, on=self._trainer.dataset.test)
        self._next += _PIECE
        self._loss += (score.loss**2 if self._root else score.loss) * len(chosen)
        if score.accuracy is None or self._right is None:
            self._right = None
        else:
            self._right += round(score.accuracy * len(chosen))
