"""Which rounds every learner has done.

Takes what learners leave after their rounds, gives it round by round when the last of them has; touches nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

_Thing = TypeVar("_Thing")


class CompleteRounds(Generic[_Thing]):
    """Things of rounds that are not complete yet."""

    def __init__(self) -> None:
        self._things: dict[int, dict[int, _Thing]] = {}

    def __len__(self) -> int:
        return len(self._things)

    def add(self, rank: int, round_: int, thing: _Thing) -> _Thing | None:
        """Gives what it replaces: the learner had left something for this round already."""
        things = self._things.setdefault(round_, {})
        before = things.get(rank)
        things[rank] = thing
        return before

    def forget(self, rank: int) -> None:
        """What this learner has left."""
        for things in self._things.values():
            things.pop(rank, None)
        self._things = {round_: things for round_, things in self._things.items() if things}

    def take(self, living: Collection[int]) -> list[tuple[int, dict[int, _Thing]]]:
        """Rounds that every one of these learners has done, with what all learners left then, by rank."""
        if not living:
            return []
        rounds = [round_ for round_ in sorted(self._things) if all(rank in self._things[round_] for rank in living)]
        return [(round_, dict(sorted(self._things.pop(round_).items()))) for round_ in rounds]

    def take_round(self, round_: int) -> dict[int, _Thing]:
        """What was left for this one, complete or not."""
        return self._things.pop(round_, {})

    def take_before(self, round_: float) -> list[tuple[int, dict[int, _Thing]]]:
        """Older rounds, complete or not."""
        older = [each for each in sorted(self._things) if each < round_]
        return [(each, self._things.pop(each)) for each in older]
