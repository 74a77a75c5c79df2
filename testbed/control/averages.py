"""Averages of all learners' models in real time: has each evaluated when the last learner has left its model.

Takes what nodes and the process that evaluates tell, gives orders; writes records into control's log. Of every round
that a learner left a model of, or had no free slot for it, there is one record: an average, or why there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from testbed.control.average_rounds import AverageRounds, Complete, Decision, Lost, Unused
from testbed.control.log import ControlLog
from testbed.protocol.nodes import Left
from testbed.protocol.zygote import AverageEvaluated, Discard, EvaluateAverage
from testbed.records import Average, Event

_MOST_ROUNDS = 1000
"""Open at a time; no node that keeps to the rules has more than a few."""


class Averages:
    """One run's."""

    def __init__(self, log: ControlLog, order: Callable[[EvaluateAverage | Discard], None]) -> None:
        self._log = log
        self._order = order
        self._rounds: AverageRounds[int] = AverageRounds(_MOST_ROUNDS)
        """A model is the slot that it was left in."""
        self._asked: dict[int, tuple[float, int]] = {}
        """Of every round that is being evaluated: the moment of its last model, and how many there are."""
        self._changed = asyncio.Event()

    def left(self, rank: int, model: Left, staying: Collection[int]) -> None:
        """A learner has left its model, or had no free slot for it."""
        found = self._rounds.left(rank, model.round, model.t, model.slot, staying)
        for each in found:
            if not (isinstance(each, Unused) and each.is_replaced and each.model == model.slot):  # the slot is in use
                self._follow(each)

    def lives_again(self, rank: int) -> None:
        """A process will be made for this node, with no models in its slots but what is being evaluated."""
        self._rounds.forget(rank)

    def evaluated(self, news: AverageEvaluated) -> None:
        """What came of an average."""
        t, nodes = self._asked.pop(news.round, (0.0, 0))
        if news.problem is not None:
            self._log.write(lost_average(t, news.round, news.problem))
        elif nodes:
            self._log.write(Average(t, news.round, nodes, news.accuracy, news.loss, news.consensus_distance))
        self._changed.set()

    async def settle(self, staying: Collection[int], within_s: float) -> None:
        """All have ended, these of them in good order: wait for what is being evaluated, but not for long."""
        for each in self._rounds.end(staying):
            self._follow(each)
        try:
            async with asyncio.timeout(within_s):
                while self._asked:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            for round_, (t, _) in sorted(self._asked.items()):
                self._log.write(lost_average(t, round_, "there was no time left to try it"))
            self._asked.clear()

    def give_up(self) -> None:
        """No average is evaluated any more."""
        self._asked.clear()
        self._changed.set()

    def _follow(self, decision: Decision[int]) -> None:
        match decision:
            case Complete(round=round_, t=t, models=slots):
                self._asked[round_] = t, len(slots)
                self._order(EvaluateAverage(round_, tuple(slots), tuple(slots.values())))
            case Lost(round=round_, t=t, why=why, models=slots):
                if slots:
                    self._order(Discard(tuple(slots), tuple(slots.values())))
                self._log.write(lost_average(t, round_, why))
            case Unused(rank=rank, model=slot):
                self._order(Discard((rank,), (slot,)))


def lost_average(t: float, round_: int, why: str) -> Event:
    """For control's log, in every runtime."""
    return Event(t, "average-lost", f"round {round_}: {why}")
