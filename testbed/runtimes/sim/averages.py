"""The average of all learners' models, round by round, in virtual time.

Takes models as nodes finish their rounds, gives one record a round when the last of them is there; touches nothing.
Sums are in the order of ranks, whoever finished first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from testbed.control.complete_rounds import CompleteRounds
from testbed.node.world import Score, Vector
from testbed.records import Average
from testbed.runtimes.averaging import judge


class Averages:
    """Models of rounds that are not complete yet."""

    def __init__(self, evaluate: Callable[[Vector], Score]) -> None:
        self._evaluate = evaluate
        self._models: CompleteRounds[Vector] = CompleteRounds()

    def add(self, rank: int, round_: int, vector: Vector) -> None:
        self._models.add(rank, round_, vector)

    def complete(self, living: Collection[int], t: float) -> list[Average]:
        """Records of the rounds that every one of these learners has done."""
        return [self._record(round_, models, t) for round_, models in self._models.take(living)]

    def _record(self, round_: int, models: dict[int, Vector], t: float) -> Average:
        found = judge(list(models.values()), self._evaluate)
        return Average(t, round_, len(models), found.accuracy, found.loss, found.consensus_distance)
