"""Reads a node's journal: its rounds as columns, its evaluations, its totals.

Takes a journal's path, gives a `JournalResult`; reads that file once, from front to back.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from testbed.collect.json_lines import LineReader
from testbed.collect.partial_records import JOURNAL_TYPES, Count, End, Evaluation, JournalRecord, Round, Start
from testbed.collect.problems import Problem
from testbed.records import SCHEMA

Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a node sent or received, counted by the application."""

    payload: int = 0
    metadata: int = 0
    control: int = 0
    messages: int = 0

    @property
    def bytes(self) -> int:
        return self.payload + self.metadata + self.control

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.payload + other.payload,
            self.metadata + other.metadata,
            self.control + other.control,
            self.messages + other.messages,
        )


@dataclass(frozen=True, slots=True)
class PhaseTotals:
    """Emulated seconds that a node spent in each phase, over all its rounds."""

    train_s: float = 0.0
    encode_s: float = 0.0
    wait_s: float = 0.0
    aggregate_s: float = 0.0
    evaluate_s: float = 0.0

    def __add__(self, other: PhaseTotals) -> PhaseTotals:
        return PhaseTotals(
            self.train_s + other.train_s,
            self.encode_s + other.encode_s,
            self.wait_s + other.wait_s,
            self.aggregate_s + other.aggregate_s,
            self.evaluate_s + other.evaluate_s,
        )


@dataclass(frozen=True, slots=True)
class Totals:
    sent: Traffic = field(default_factory=Traffic)
    received: Traffic = field(default_factory=Traffic)

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.sent + other.sent, self.received + other.received)


@dataclass(frozen=True, slots=True)
class RoundColumns:
    """One entry for each round, in the journal's order."""

    t: Column
    number: Column
    loss: Column
    """Training loss; NaN where unknown."""
    duration_s: Column
    """Since the end of the previous round, or since the start; NaN where unknown."""
    sent_bytes: Column
    received_bytes: Column


@dataclass(frozen=True, slots=True)
class Leftover:
    """Bytes counted in a node's `end` and in none of its rounds."""

    t: float
    sent_bytes: int


@dataclass(frozen=True)
class JournalResult:
    """All that a summary needs of one node."""

    rank: int | None
    roles: tuple[str, ...]
    learner: bool | None
    """None when no start record could be read."""
    starts_s: tuple[float, ...]
    """When it started and each time it came back."""
    end: str | None
    """Why it ended; None when it did not, or came back afterwards."""
    failure: str | None
    last_t: float
    """The time of its end, or of its last record."""
    worked_t: float | None
    """The end of its last round, or the time of its last evaluation; None when it has neither."""
    rounds: RoundColumns
    evaluations: tuple[Evaluation, ...]
    """In order of the models' times."""
    sent: Traffic
    received: Traffic
    leftovers: tuple[Leftover, ...]
    phases: PhaseTotals
    steps: int
    aggregated: int
    """Number of received models that it mixed into its own."""
    dropped: int
    expired: int

    @property
    def round_count(self) -> int:
        """Number of distinct rounds finished: one repeated after a rejoin with an old model counts once."""
        return int(np.unique(self.rounds.number).size)


def read_journal(run: Path, shown: str) -> tuple[JournalResult | None, list[Problem]]:
    """The content of a journal and its problems; None when nothing could be read."""
    reader = LineReader[JournalRecord](run / shown, run, shown, msgspec.json.Decoder(JournalRecord), JOURNAL_TYPES)
    node = _Node()
    for records in reader.batches():
        newest = node.take(records)
        if newest > SCHEMA:
            reader.newer_schema = newest
        if reader.newer_schema is not None:
            return None, reader.problems()
    problems = reader.problems()
    if not node.any:
        return None, problems
    if not node.starts_s:
        problems.append(Problem(f"{shown} has no start"))
    return node.result(), problems


def _column() -> array[float]:
    return array("d")


@dataclass
class _Node:
    """Takes a journal's records in order; a second start begins a second life of the node."""

    any: bool = False
    rank: int | None = None
    roles: tuple[str, ...] = ()
    learner: bool | None = None
    starts_s: list[float] = field(default_factory=list)
    end: End | None = None
    last_t: float = 0.0
    t: array[float] = field(default_factory=_column)
    number: array[float] = field(default_factory=_column)
    loss: array[float] = field(default_factory=_column)
    sent_bytes: array[float] = field(default_factory=_column)
    received_bytes: array[float] = field(default_factory=_column)
    begun: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Lives by their position in the columns: number of the round before the first, and time of the start."""
    evaluations: list[Evaluation] = field(default_factory=list)
    phases: PhaseTotals = field(default_factory=PhaseTotals)
    steps: int = 0
    aggregated: int = 0
    dropped: int = 0
    expired: int = 0
    life: Totals = field(default_factory=Totals)
    """Totals of the rounds since the last start or end."""
    total: Totals = field(default_factory=Totals)
    """Totals of all earlier lives."""
    leftovers: list[Leftover] = field(default_factory=list)

    def take(self, records: Iterable[JournalRecord]) -> int:
        """Takes records and returns the newest schema among them."""
        newest, rounds = 0, list[Round]()
        for record in records:
            if type(record) is Round:
                rounds.append(record)
                continue
            self.last_t = max(self.last_t, record.t)
            if type(record) is Evaluation:
                self.evaluations.append(record)
            elif type(record) is Start:
                self._rounds(rounds)
                rounds = []
                newest = max(newest, record.schema)
                self._start(record)
            elif type(record) is End:
                self._rounds(rounds)
                rounds = []
                self._end(record)
            self.any = True
        self._rounds(rounds)
        return newest

    def _rounds(self, rounds: list[Round]) -> None:
        """Takes rounds of one life. There may be millions, so each field is taken from all of them at once."""
        if not rounds:
            return
        self.any = True
        self.end = None
        t = [each.t for each in rounds]
        self.last_t = max(self.last_t, *t)
        self.t.extend(array("d", t))
        self.number.extend(array("d", [each.round for each in rounds]))
        self.loss.extend(array("d", [math.nan if each.loss is None else each.loss for each in rounds]))
        sent, received = [each.sent for each in rounds], [each.received for each in rounds]
        self.sent_bytes.extend(array("d", [each.payload + each.metadata + each.control for each in sent]))
        self.received_bytes.extend(array("d", [each.payload + each.metadata + each.control for each in received]))
        self.life += Totals(_sum(sent), _sum(received))
        self.steps += sum([each.steps for each in rounds])
        self.aggregated += sum([each.aggregated for each in rounds])
        self.dropped += sum([each.dropped for each in rounds])
        self.expired += sum([each.expired for each in rounds])
        phases = [each.phases for each in rounds]
        self.phases += PhaseTotals(
            sum([each.train for each in phases]),
            sum([each.encode for each in phases]),
            sum([each.wait for each in phases]),
            sum([each.aggregate for each in phases]),
            sum([each.evaluate for each in phases]),
        )

    def _start(self, record: Start) -> None:
        self._close(self.life)
        self.rank, self.roles, self.learner = record.rank, record.roles, record.learner is not None
        self.starts_s.append(record.t)
        self.begun[len(self.t)] = record.round - 1.0, record.t
        self.end = None

    def _end(self, record: End) -> None:
        totals = Totals(_traffic(record.sent), _traffic(record.received))
        left = totals.sent.bytes - self.life.sent.bytes
        if left > 0:
            self.leftovers.append(Leftover(record.t, left))
        self._close(totals)
        self.begun[len(self.t)] = math.nan, math.nan
        self.end = record

    def _close(self, totals: Totals) -> None:
        self.total += totals
        self.life = Totals()

    def result(self) -> JournalResult:
        self._close(self.life)
        columns = (self.t, self.number, self.loss, self.sent_bytes, self.received_bytes)
        t, number, loss, sent_bytes, received_bytes = (np.frombuffer(each, dtype=np.float64) for each in columns)
        return JournalResult(
            rank=self.rank,
            roles=self.roles,
            learner=self.learner,
            starts_s=tuple(self.starts_s),
            end=None if self.end is None else self.end.reason,
            failure=None if self.end is None else _why(self.end),
            last_t=self.last_t if self.end is None else self.end.t,
            worked_t=max([*t[-1:].tolist(), *(each.t for each in self.evaluations)], default=None),
            rounds=RoundColumns(t, number, loss, self._durations(t, number), sent_bytes, received_bytes),
            evaluations=tuple(sorted(self.evaluations, key=lambda each: (each.t, each.round))),
            sent=self.total.sent,
            received=self.total.received,
            leftovers=tuple(self.leftovers),
            phases=self.phases,
            steps=self.steps,
            aggregated=self.aggregated,
            dropped=self.dropped,
            expired=self.expired,
        )

    def _durations(self, t: Column, number: Column) -> Column:
        """Durations of rounds; known where the record before is the previous round, or the start."""
        before_t, before = (
            np.concatenate([[np.nan], t[:-1]])[: t.size],
            np.concatenate([[np.nan], number[:-1]])[: t.size],
        )
        for index, (round_before, start_t) in self.begun.items():
            if index < t.size:
                before[index], before_t[index] = round_before, start_t
        known = (before + 1 == number) & (before_t <= t)
        return np.where(known, t - before_t, np.nan)


def _traffic(count: Count) -> Traffic:
    return Traffic(count.payload, count.metadata, count.control, count.messages)


def _sum(counts: list[Count]) -> Traffic:
    return Traffic(
        sum([each.payload for each in counts]),
        sum([each.metadata for each in counts]),
        sum([each.control for each in counts]),
        sum([each.messages for each in counts]),
    )


def _why(end: End) -> str | None:
    """The reason of an end; for a failure, one line with its place and message."""
    if end.failure is None:
        return None
    line = "" if end.failure.line is None else f":{end.failure.line}"
    place = f"{end.failure.file}{line}: " if end.failure.file else ""
    return place + " ".join(end.failure.message.split())[:500]
