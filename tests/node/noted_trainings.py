"""The trainings of a small world's nodes, in the order in which they begin and end.

Takes nothing, gives a list that fills while worlds run; replaces `Quadratic.train` meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest

from testbed.node.world import Trained, Vector
from tests.node.small_world import Quadratic


class Noted(NamedTuple):
    """Something that a node does."""

    what: str
    node: int
    other: int = -1
    """Of a message: the other node."""
    round: int = -1
    first_step: int = 0
    steps: int = 0
    change: Vector = np.zeros(0, np.float32)
    """Of a training that ends."""


@contextmanager
def trainings() -> Iterator[list[Noted]]:
    """Notes what begins to be trained, and how it has changed when that is done."""
    found: list[Noted] = []
    train = Quadratic.train

    async def noted(self: Quadratic, model: Vector, first_step: int, steps: int) -> Trained:
        assert self._learner is not None
        found.append(Noted("begins", self._learner, first_step=first_step, steps=steps))
        trained = await train(self, model, first_step, steps)
        found.append(Noted("ends", self._learner, change=trained.after - trained.before))
        return trained

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Quadratic, "train", noted)
        yield found


def descended(gradients: Quadratic, model: np.ndarray, noted: Noted, lr: float) -> np.ndarray:
    """The model after these local steps, in float64."""
    trained = model.astype(np.float64)
    for step in range(noted.first_step, noted.first_step + noted.steps):
        trained -= lr * gradients.slope(trained, step)  # type: ignore[arg-type]
    return trained
