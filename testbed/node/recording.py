"""A node's journal: events, rounds and evaluations, in the order in which they count.

Takes records and scores under way; writes the journal, and tells the observer.
"""

from __future__ import annotations

from typing import NamedTuple

from testbed.journal import Journal
from testbed.node.round_account import RoundAccount
from testbed.node.world import Clock, Observer, Pending
from testbed.records import AnyRecord, Evaluation, Event, Start


class _Unwritten(NamedTuple):
    """An evaluation under way, with the time and round of its record."""

    t: float
    round: int
    score: Pending


class RecordingNode:
    """The part of a node that keeps its journal."""

    def __init__(self, rank: int, clock: Clock, journal: Journal, observer: Observer, tested_on: str) -> None:
        self.rank = rank
        """The number of this node, by its position in the topology."""
        self._clock = clock
        self._journal = journal
        self._observer = observer
        self._tested_on = tested_on
        self._unsaid: list[tuple[str, str]] | None = []
        """Notes from before the record `start`."""
        self._evaluations: list[_Unwritten] = []
        self._account = RoundAccount(clock.now)

    def now(self) -> float:
        """Emulated seconds since the start."""
        return self._clock.now()

    def work_goes_on_here(self) -> None:
        """What the current task waits for is time of the rounds; what other tasks wait for is not."""
        self._account.rounds_go_on_here()

    def note(self, what: str, detail: str = "") -> None:
        """Writes an event to the journal; raises TypeError unless both are text."""
        if not isinstance(what, str) or not isinstance(detail, str):
            raise TypeError("node.note(what, detail) takes two texts: json.dumps(...) or str(...) makes one of values")
        if self._unsaid is None:
            self.record(Event(self.now(), what, detail))
        else:
            self._unsaid.append((what, detail))

    def begin(self, first: Start) -> None:
        """Writes the journal's first record, then the notes from before it."""
        self._write(first)
        unsaid, self._unsaid = self._unsaid, None
        for what, detail in unsaid or ():
            self.note(what, detail)

    def record(self, record: AnyRecord) -> None:
        """Writes a record, after those evaluations before it that are done."""
        self.settle_evaluations(wait=False)
        self._write(record)

    def close_with(self, record: AnyRecord) -> None:
        """Writes the last record and drops evaluations under way."""
        self._evaluations.clear()
        self._write(record)

    def _evaluating(self, round_: int, score: Pending) -> None:
        """A model is being evaluated: its record has the present time."""
        self._evaluations.append(_Unwritten(self.now(), round_, score))

    async def all_evaluated(self) -> None:
        """Waits until `settle_evaluations` need not."""
        for each in list(self._evaluations):
            await each.score.ended()

    def settle_evaluations(self, *, wait: bool = True) -> None:
        """Writes the evaluations under way, in their order; without `wait` up to the first that is not done."""
        while self._evaluations and (wait or self._evaluations[0].score.is_done):
            each = self._evaluations.pop(0)
            try:
                score = each.score.result()
            except BaseException:
                self._evaluations.clear()  # later models would fail, too
                raise
            self._write(Evaluation(each.t, each.round, score.accuracy, score.loss, score.samples, self._tested_on))

    def _write(self, record: AnyRecord) -> None:
        self._journal.write(record)
        self._observer.recorded(self.rank, record)
