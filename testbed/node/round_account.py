"""What a node has done since the last round's record.

Takes counts and durations as they happen, gives a `Round`; touches nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from testbed.node.outbox import Outbox
from testbed.node.tally import Tally
from testbed.records import Count, Phases, Round

TRAIN, WAIT, EVALUATE = "train", "wait", "evaluate"


class RoundAccount:
    """Counters between two records of rounds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._main: asyncio.Task[object] | None = None
        """The task that goes through the rounds. What other tasks wait for meanwhile is no time of the round."""
        self._told_sent = Tally()
        """What the records add up to: more than has left, after messages were taken back."""
        self._told_received = Count()
        self._told_dropped = 0
        self._begin()

    def _begin(self) -> None:
        self.expired = 0
        """Messages that were too late."""
        self._phases = {"train": 0.0, "encode": 0.0, "wait": 0.0, "aggregate": 0.0, "evaluate": 0.0}
        self._losses: list[float] = []
        self._steps = 0
        self._staleness: list[int] = []

    def rounds_go_on_here(self) -> None:
        """The current task is the one that goes through the rounds."""
        self._main = asyncio.current_task()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time inside to a phase of the round; waiting beside the rounds' own task does not count."""
        if name != TRAIN and self._main is not None and asyncio.current_task() is not self._main:
            yield
            return
        began = self._now()
        try:
            yield
        finally:
            self._phases[name] += self._now() - began

    def trained(self, loss: float, steps: int) -> None:
        self._steps += steps
        self._losses.append(loss)

    def mixed(self, ages: Iterable[int]) -> None:
        """Models were handed to the algorithm; `ages` in rounds."""
        self._staleness.extend(ages)

    def close(self, round_: int, outbox: Outbox, received: Tally) -> Round:
        """The record of a round that ends now; counting begins anew."""
        sent = outbox.sent.since(self._told_sent.count())
        self._told_sent.add(sent)
        losses, ages = self._losses, self._staleness
        record = Round(
            t=self._now(),
            round=round_,
            loss=sum(losses) / len(losses) if losses else None,
            phases=Phases(**self._phases),
            sent=sent,
            received=received.since(self._told_received),
            steps=self._steps,
            aggregated=len(ages),
            dropped=outbox.dropped - self._told_dropped,
            expired=self.expired,
            staleness_mean=sum(ages) / len(ages) if ages else 0.0,
            staleness_max=max(ages, default=0),
        )
        self._told_received, self._told_dropped = received.count(), outbox.dropped
        self._begin()
        return record
