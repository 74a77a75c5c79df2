"""The average of all learners' models, round by round: asks for it when the last has left its model.

Takes what nodes and their judge tell, gives orders; writes records into control's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from testbed.control.complete_rounds import CompleteRounds
from testbed.control.log import ControlLog
from testbed.protocol import Discard, Judge, Judged, Left
from testbed.records import Average, Event

_MOST_ROUNDS = 1000
"""Under way at a time; no node that keeps to the rules has more than a few."""


class Averages:
    """One run's."""

    def __init__(self, log: ControlLog, order: Callable[[Judge | Discard], None]) -> None:
        self._log = log
        self._order = order
        self._models: CompleteRounds[Left] = CompleteRounds()
        self._asked: dict[int, tuple[float, int]] = {}
        """Of every round that is being judged: the moment of its last model, and how many there are."""
        self._changed = asyncio.Event()

    def left(self, rank: int, model: Left, living: Collection[int]) -> None:
        """A learner has left its model; these learners have not ended yet."""
        if len(self._models) < _MOST_ROUNDS:
            self._models.add(rank, model.round, model)
            self._take(living)

    def judged(self, news: Judged) -> None:
        t, nodes = self._asked.pop(news.round, (0.0, 0))
        if news.problem is not None:
            self._lost(t, news.round, news.problem)
        elif nodes:
            self._log.write(Average(t, news.round, nodes, news.accuracy, news.loss, news.consensus_distance))
        self._changed.set()

    async def settle(self, stayed: Collection[int], within_s: float) -> None:
        """All have ended, these of them in good order: wait for what is being judged, but not for long."""
        self._take(stayed)
        try:
            async with asyncio.timeout(within_s):
                while self._asked:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            for round_, (t, _) in sorted(self._asked.items()):
                self._lost(t, round_, "there was no time left to try it")
            self._asked.clear()

    def give_up(self) -> None:
        """Nobody will judge any more."""
        self._asked.clear()
        self._changed.set()

    def _take(self, living: Collection[int]) -> None:
        for round_, models in self._models.take(living):
            for old, found in self._models.take_before(round_):
                # It never will be complete: somebody had no room for its model, or was not there.
                self._order(Discard(tuple(found), tuple(each.slot for each in found.values())))
                self._lost(max(each.t for each in found.values()), old, "not every learner left its model")
            slots = tuple(each.slot for each in models.values())
            if round_ in self._asked:  # by one that came back
                self._order(Discard(tuple(models), slots))
                continue
            self._asked[round_] = max(each.t for each in models.values()), len(models)
            self._order(Judge(round_, tuple(models), slots))

    def _lost(self, t: float, round_: int, why: str) -> None:
        self._log.write(Event(t, "average-lost", f"round {round_}: {why}"))
