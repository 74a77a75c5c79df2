"""How far a run is, for those who watch it.

Takes the records of all nodes as they are written, gives figures; touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from testbed.records import AnyRecord, Count, End, Evaluation, Event, Round, Start


@dataclass(frozen=True, slots=True)
class Progress:
    """One look at a run that goes on."""

    t: float
    rounds: int
    """What the slowest node has done."""
    rounds_planned: int | None
    time_planned_s: float | None
    nodes: int
    """That live now."""
    done: int
    accuracy: float | None
    """Mean of the latest of every node."""
    loss: float | None
    bytes_sent: int

    @property
    def share(self) -> float | None:
        """0 to 1; None when there is no end to compare with."""
        shares = []
        if self.rounds_planned:
            shares.append(self.rounds / self.rounds_planned)
        if self.time_planned_s:
            shares.append(self.t / self.time_planned_s)
        return min(1.0, max(shares)) if shares else None


_MOST_REMARKS = 10
_MOST_NAMED = 5
UNHEARD_AFTER_S = 5.0
"""Of real time: every node says something each second or two, whatever its algorithm does."""
Tell = Callable[[Progress], None]


class ProgressTally:
    """Keeps the newest figures of every node."""

    def __init__(self, learners: tuple[int, ...], rounds: int | None, time_s: float | None) -> None:
        self._learners = frozenset(learners)
        self._rounds_planned = rounds
        self._time_s = time_s
        self._rounds: dict[int, int] = {}
        self._scores: dict[int, Evaluation] = {}
        self._living: set[int] = set()
        self._done: set[int] = set()
        self._bytes = 0
        self._bytes_of_life: dict[int, int] = {}
        self._remarks: dict[str, None] = {}
        self._never_taken: dict[str, list[int]] = {}
        """By kind of message: how many were left, one number for each node."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What nodes have met with that makes one wonder about their numbers, each thing once."""
        return (*self._remarks, *(never_taken_words(kind, left) for kind, left in self._never_taken.items()))

    def recorded(self, rank: int, record: AnyRecord) -> None:
        match record:
            case Round():
                self._rounds[rank] = record.round + 1
                self._sent(rank, _in_all(record.sent))
            case Evaluation():
                self._scores[rank] = record
            case Event(what="not-awaited", detail=words) if len(self._remarks) < _MOST_REMARKS:
                self._remarks[words] = None
            case Event(what="never-taken", detail=words):
                kind, _, count = words.rpartition(": ")
                if (kind in self._never_taken or len(self._never_taken) < _MOST_REMARKS) and count.isdecimal():
                    self._never_taken.setdefault(kind, []).append(int(count))
            case Start():
                self._living.add(rank)
                self._done.discard(rank)
                self._rounds[rank] = record.round
                self._bytes_of_life[rank] = 0
            case End():
                self._sent(rank, _in_all(record.sent) - self._bytes_of_life.get(rank, 0))
                self.gone(rank)
                self._done.add(rank)

    def _sent(self, rank: int, size: int) -> None:
        self._bytes += size
        self._bytes_of_life[rank] = self._bytes_of_life.get(rank, 0) + size

    def gone(self, rank: int) -> None:
        """A node that does not live any more does not hold the others up."""
        self._living.discard(rank)

    def mean_accuracy(self) -> float | None:
        known = [score.accuracy for _, score in sorted(self._scores.items()) if score.accuracy is not None]
        return sum(known) / len(known) if known else None

    def has_reached(self, accuracy: float, counted: Collection[int]) -> bool:
        """Whether all of these have been evaluated, and the mean is that good."""
        mean = self.mean_accuracy()
        return all(rank in self._scores for rank in counted) and mean is not None and mean >= accuracy

    def round_of_the_slowest(self) -> int:
        """Rounds done by the living learner that has done least."""
        living = self._living & self._learners
        return min((self._rounds.get(rank, 0) for rank in living), default=max(self._rounds.values(), default=0))

    def look(self, t: float) -> Progress:
        losses = [score.loss for _, score in sorted(self._scores.items())]
        return Progress(
            t=t,
            rounds=self.round_of_the_slowest(),
            rounds_planned=self._rounds_planned,
            time_planned_s=self._time_s,
            nodes=len(self._living),
            done=len(self._done),
            accuracy=self.mean_accuracy(),
            loss=sum(losses) / len(losses) if losses else None,
            bytes_sent=self._bytes,
        )


def _in_all(count: Count) -> int:
    return count.payload + count.metadata + count.control


def never_taken_words(kind: str, left: Sequence[int]) -> str:
    """One line for all nodes that took no message of a kind; `left` has the number of messages at each of them."""
    where = "one node" if len(left) == 1 else f"{len(left)} nodes"
    return (
        f"{sum(left)} messages of the kind `{kind}` arrived and were never taken, at {where}: "
        f"node.receive, node.arrived, node.gather or node.on takes them"
    )


def unheard_words(nodes: Sequence[str]) -> str:
    """One line for all nodes of which nothing has been heard for that long."""
    more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
    return f"nothing heard for {UNHEARD_AFTER_S:g} s of {', '.join(nodes[:_MOST_NAMED])}{more}"
