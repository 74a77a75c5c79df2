"""Which rounds have an average of all learners' models, and which have lost it: the rule of every runtime.

Takes the models that learners leave after their rounds, gives decisions; touches nothing. An average is of every
learner that works or has ended in good order, and of those that left the run but left a model of that round.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

_Model = TypeVar("_Model")
_MOST_LOST = 100_000
"""Lost rounds that slower learners have not come to yet."""


@dataclass(frozen=True, slots=True)
class Complete(Generic[_Model]):
    """The round's average can be evaluated: these are its models, by rank, in the order of ranks."""

    round: int
    t: float
    """When the last of them was left."""
    models: dict[int, _Model]


@dataclass(frozen=True, slots=True)
class Lost(Generic[_Model]):
    """The round will have no average; these models of it are not needed any more."""

    round: int
    t: float
    why: str
    models: dict[int, _Model]


@dataclass(frozen=True, slots=True)
class Unused(Generic[_Model]):
    """A model that no average takes: it came late, or a newer one of the same round replaces it."""

    rank: int
    model: _Model
    is_replaced: bool


Decision = Complete[_Model] | Lost[_Model] | Unused[_Model]


class AverageRounds(Generic[_Model]):
    """The rounds of one run that are not complete yet."""

    def __init__(self, most_rounds: float = inf) -> None:
        """At most so many rounds are open at a time; models of further ones are not used."""
        self._most_rounds = most_rounds
        self._open: dict[int, dict[int, tuple[float, _Model]]] = {}
        self._complete_until = -1
        """The newest round that was complete: older ones are over."""
        self._lost: set[int] = set()
        """Newer rounds that never will be complete."""

    def left(
        self, rank: int, round_: int, t: float, model: _Model | None, staying: Collection[int]
    ) -> list[Decision[_Model]]:
        """A learner has left its model of a round, or had no free slot for it.

        Averages wait for the learners in `staying`: those that work, and those that have ended in good order.
        """
        is_over = round_ <= self._complete_until or round_ in self._lost
        found: list[Decision[_Model]] = []
        if model is None:
            if not is_over and len(self._lost) < _MOST_LOST:
                self._lost.add(round_)
                models = self._open.pop(round_, {})
                found.append(_lost(round_, models, "a learner had no free model slot", t))
        elif is_over or len(self._open) >= self._most_rounds:
            return [Unused(rank, model, is_replaced=False)]
        else:
            models = self._open.setdefault(round_, {})
            before = models.get(rank)
            models[rank] = t, model
            if before is not None:
                found.append(Unused(rank, before[1], is_replaced=True))
        return found + self._take(staying)

    def forget(self, rank: int) -> None:
        """The learner begins another life: what the last one left in open rounds does not count."""
        for models in self._open.values():
            models.pop(rank, None)
        self._open = {round_: models for round_, models in self._open.items() if models}

    def end(self, staying: Collection[int]) -> list[Decision[_Model]]:
        """All learners have ended, these of them in good order."""
        found = self._take(staying)
        for round_ in sorted(self._open):
            found.append(_lost(round_, self._open.pop(round_), "not every learner came that far"))
        return found

    def _take(self, staying: Collection[int]) -> list[Decision[_Model]]:
        found: list[Decision[_Model]] = []
        for round_ in sorted(self._open) if staying else ():
            models = self._open[round_]
            if not all(rank in models for rank in staying):
                continue
            for older in sorted(each for each in self._open if each < round_):  # a learner began after them
                found.append(_lost(older, self._open.pop(older), "not every learner left its model"))
            del self._open[round_]
            self._complete_until = round_
            self._lost = {each for each in self._lost if each > round_}
            t = max(left_t for left_t, _ in models.values())
            found.append(Complete(round_, t, {rank: model for rank, (_, model) in sorted(models.items())}))
        return found


def _lost(round_: int, models: dict[int, tuple[float, _Model]], why: str, t: float = 0.0) -> Lost[_Model]:
    t = max([t, *(left_t for left_t, _ in models.values())])
    return Lost(round_, t, why, {rank: model for rank, (_, model) in models.items()})
