"""The average of all learners' models, round by round: how good it is, and how far the nodes are from it.

Takes models as nodes finish their rounds, gives one record a round when the last of them is there; touches nothing.
Sums are in the order of ranks, whoever finished first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from testbed.node.world import Score, Vector
from testbed.records import Average


class Averages:
    """Models of rounds that are not complete yet."""

    def __init__(self, evaluate: Callable[[Vector], Score]) -> None:
        self._evaluate = evaluate
        self._models: dict[int, dict[int, Vector]] = {}

    def add(self, rank: int, round_: int, vector: Vector) -> None:
        self._models.setdefault(round_, {})[rank] = vector

    def complete(self, living: Collection[int], t: float) -> list[Average]:
        """Records of the rounds that every one of these learners has done."""
        if not living:
            return []
        rounds = [round_ for round_ in sorted(self._models) if all(rank in self._models[round_] for rank in living)]
        return [self._record(round_, self._models.pop(round_), t) for round_ in rounds]

    def _record(self, round_: int, models: dict[int, Vector], t: float) -> Average:
        vectors = [models[rank] for rank in sorted(models)]
        total = np.zeros(vectors[0].size, dtype=np.float64)
        for vector in vectors:
            total += vector
        mean = total / len(vectors)
        squares = 0.0
        for vector in vectors:
            difference = vector - mean
            squares += float(difference @ difference)
        score = self._evaluate(mean.astype(np.float32))
        return Average(
            t=t,
            round=round_,
            nodes=len(vectors),
            accuracy=score.accuracy,
            loss=score.loss,
            consensus_distance=float(np.sqrt(squares / len(vectors))),
        )
