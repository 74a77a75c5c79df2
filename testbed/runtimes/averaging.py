"""The average of all learners' models: its score, and the nodes' distance from it.

Takes vectors and an evaluation function, gives a score; touches nothing. Vectors are summed in the given order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from testbed.node.world import Score, Vector


class AverageScore(NamedTuple):
    """The score of an average of models."""

    accuracy: float | None
    loss: float
    consensus_distance: float
    """The root mean square of the models' distances to the average."""


def evaluate_average(vectors: Sequence[Vector], evaluate: Callable[[Vector], Score]) -> AverageScore:
    """The score; identical bits for the same vectors in the same order."""
    total = np.zeros(vectors[0].size, dtype=np.float64)
    for vector in vectors:
        total += vector
    mean = total / len(vectors)
    squares = 0.0
    for vector in vectors:
        difference = vector - mean
        squares += float(difference @ difference)
    score = evaluate(mean.astype(np.float32))
    return AverageScore(score.accuracy, score.loss, float(np.sqrt(squares / len(vectors))))
