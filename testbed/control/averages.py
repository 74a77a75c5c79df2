"""The average of all learners' models, round by round: asks for it when the last has left its model.

Takes what nodes and their judge tell, gives orders; writes records into control's log. Of every round that somebody
left a model of, or had no room for it, there is one record: an average of all that stayed, or why there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from math import inf
from typing import NamedTuple

from testbed.control.complete_rounds import CompleteRounds
from testbed.control.log import ControlLog
from testbed.protocol.nodes import Left
from testbed.protocol.zygote import Discard, Judge, Judged
from testbed.records import Average, Event

_MOST_ROUNDS = 1000
"""Under way at a time; no node that keeps to the rules has more than a few."""
_MOST_LOST = 100_000
"""That slower learners have not come to yet."""


class _Kept(NamedTuple):
    slot: int
    t: float


class Averages:
    """One run's."""

    def __init__(self, log: ControlLog, order: Callable[[Judge | Discard], None]) -> None:
        self._log = log
        self._order = order
        self._models: CompleteRounds[_Kept] = CompleteRounds()
        self._complete_until = -1
        """The newest round that was complete: all have done with older ones."""
        self._lost: set[int] = set()
        """Newer ones that never will be."""
        self._asked: dict[int, tuple[float, int]] = {}
        """Of every round that is being judged: the moment of its last model, and how many there are."""
        self._changed = asyncio.Event()

    def left(self, rank: int, model: Left, stayed: Collection[int]) -> None:
        """A learner has left its model, or had no room for it; these work still, or have ended in good order."""
        is_over = model.round <= self._complete_until or model.round in self._lost
        if model.slot is None:
            if not is_over and len(self._lost) < _MOST_LOST:
                self._lost.add(model.round)
                self._give_up(model.round, self._models.take_round(model.round), "somebody had no room for it", model.t)
        elif is_over or len(self._models) >= _MOST_ROUNDS:
            self._order(Discard((rank,), (model.slot,)))
            return
        else:
            before = self._models.add(rank, model.round, _Kept(model.slot, model.t))
            if before is not None and before.slot != model.slot:
                self._order(Discard((rank,), (before.slot,)))
        self._take(stayed)

    def lives_again(self, rank: int) -> None:
        """A process will be made for this node, with nothing on the shelf but what is being judged."""
        self._models.forget(rank)

    def judged(self, news: Judged) -> None:
        t, nodes = self._asked.pop(news.round, (0.0, 0))
        if news.problem is not None:
            self._tell_of_loss(t, news.round, news.problem)
        elif nodes:
            self._log.write(Average(t, news.round, nodes, news.accuracy, news.loss, news.consensus_distance))
        self._changed.set()

    async def settle(self, stayed: Collection[int], within_s: float) -> None:
        """All have ended, these of them in good order: wait for what is being judged, but not for long."""
        self._take(stayed)
        for round_, models in self._models.take_before(inf):
            self._give_up(round_, models, "not every learner came that far")
        try:
            async with asyncio.timeout(within_s):
                while self._asked:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            for round_, (t, _) in sorted(self._asked.items()):
                self._tell_of_loss(t, round_, "there was no time left to try it")
            self._asked.clear()

    def give_up(self) -> None:
        """Nobody will judge any more."""
        self._asked.clear()
        self._changed.set()

    def _take(self, stayed: Collection[int]) -> None:
        for round_, models in self._models.take(stayed):
            for old, found in self._models.take_before(round_):
                self._give_up(old, found, "not every learner left its model")  # somebody came later
            self._complete_until = round_
            self._lost = {each for each in self._lost if each > round_}
            self._asked[round_] = max(each.t for each in models.values()), len(models)
            self._order(Judge(round_, tuple(models), tuple(each.slot for each in models.values())))

    def _give_up(self, round_: int, models: dict[int, _Kept], why: str, t: float = 0.0) -> None:
        if models:
            self._order(Discard(tuple(models), tuple(each.slot for each in models.values())))
        self._tell_of_loss(max([t, *(each.t for each in models.values())]), round_, why)

    def _tell_of_loss(self, t: float, round_: int, why: str) -> None:
        self._log.write(Event(t, "average-lost", f"round {round_}: {why}"))
