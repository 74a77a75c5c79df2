"""The rules of a run, the same in virtual and in real time: when it is over and why, and what counts as finished.

Takes what happens to nodes, gives decisions; touches nothing, and knows no time but what it is told. Which rounds have
an average, `average_rounds` says; when a run waits in vain, `stall`.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto

from testbed.control.outcome import ACCURACY, FINISHED, INTERRUPTED, TIME, NodeFailure, Outcome
from testbed.control.progress import ProgressTally
from testbed.plan.model import RunPlan
from testbed.records import AnyRecord, Failure, Over, Start

LEFT, STOPPED = "left", "stopped"
"""Why a node ends, besides the reasons that a run has."""
_IN_GOOD_ORDER = (TIME, ACCURACY)
"""Reasons for which nodes may still take their time for the last of their work."""


class Remaining(Enum):
    """What is still to be done in a run."""

    WORK = auto()
    SERVING = auto()
    """Nothing but serving others, of which none works any more."""
    NOTHING = auto()


def node_reason(reason: str) -> str:
    """Why nodes are told to end in a run that ends for this reason."""
    return INTERRUPTED if reason == INTERRUPTED else STOPPED


def remaining(working: Collection[int], idle: Collection[int], *, is_any_coming: bool) -> Remaining:
    """`working` have not ended; of those, `idle` only serve others. While another node is to come there is work."""
    if is_any_coming:
        return Remaining.WORK
    if not working:
        return Remaining.NOTHING
    return Remaining.SERVING if all(rank in idle for rank in working) else Remaining.WORK


class RunRules:
    """What has happened in one run, and what follows from it."""

    def __init__(self, plan: RunPlan) -> None:
        stop = plan.experiment.stop
        self._plan = plan
        self._target = stop.accuracy
        self._names = [node.name for node in plan.nodes]
        self.progress = ProgressTally(plan.learners, stop.rounds, stop.time_s)
        self.reason = FINISHED
        self.is_ending = False
        """Whether all nodes were told to end."""
        self.is_hurried = False
        """Whether they have only a short while for that: what they would still do is not wanted, or of no use."""
        self.broken: list[str] = []
        """What all nodes need and is gone, in words."""
        self._failures: list[NodeFailure] = []
        self._finished: set[int] = set()
        self._done: set[int] = set()
        """Nodes that have ended by themselves, with all of their work done."""
        self._stayed: set[int] = set()
        """Learners that have ended in good order, without leaving."""
        self._doomed: set[int] = set()
        """Nodes that something broken has ended: they cannot have finished."""

    # -- what happens ----------------------------------------------------------------------------------------------

    def life_begins(self, rank: int) -> None:
        """The node gets a process, or another one: it has not finished before that has."""
        self._finished.discard(rank)
        self._done.discard(rank)

    def recorded(self, rank: int, record: AnyRecord) -> None:
        """A node has written this into its journal."""
        if isinstance(record, Start):
            self._stayed.discard(rank)
        self.progress.recorded(rank, record)

    def ended(self, rank: int, reason: str) -> None:
        """A node has ended without a failure, for this reason."""
        if reason == INTERRUPTED or self.has_failed(rank):
            return
        self._finished.add(rank)
        if reason == FINISHED:
            self._done.add(rank)
        if reason != LEFT and rank in self._plan.learners:
            self._stayed.add(rank)

    def gone(self, rank: int) -> None:
        """A node is dead without a last word."""
        self.progress.gone(rank)

    def died_as_planned(self, rank: int) -> None:
        """It was killed, as the topology's events want it; in a run that is being ended, by that."""
        self.gone(rank)
        if not self.is_hurried:
            self._finished.add(rank)

    def failed(self, rank: int, failure: Failure) -> None:
        self._failures.append(NodeFailure(self._names[rank], failure))

    def broke(self, words: str, doomed: Collection[int] = ()) -> bool:
        """Something that all nodes need is gone; it ends these. Whether that is new."""
        self._doomed.update(doomed)
        if words in self.broken:
            return False
        self.broken.append(words)
        return True

    # -- what follows ----------------------------------------------------------------------------------------------

    def stop(self, reason: str) -> bool:
        """The run ends: the first reason stays, but an interruption does not wait for the last of the work.

        Whether this is the reason now.
        """
        if self.is_ending and not (reason == INTERRUPTED and self.reason in _IN_GOOD_ORDER):
            return False
        self.is_ending = True
        self.reason = reason
        self.is_hurried = reason not in _IN_GOOD_ORDER
        return True

    def hurry(self) -> bool:
        """Whatever the reason, nodes have only a short while to end; whether that is new."""
        was_hurried, self.is_hurried = self.is_hurried, True
        return not was_hurried

    def is_accurate_enough(self, working: Collection[int]) -> bool:
        """By the server's model where there is one, else by the mean over the learners at work."""
        if self._target is None:
            return False
        server, present = self._plan.server, set(working)
        counted = [rank for rank in self._plan.learners if rank in present] if server is None else [server]
        return self.progress.has_reached(self._target, counted)

    def staying(self, working: Collection[int]) -> list[int]:
        """Learners whose models belong into every average: those at work, and those that have ended in good order."""
        present = self._stayed.union(working)
        return [rank for rank in self._plan.learners if rank in present]

    def next_life(self, *, has_lived: bool) -> tuple[str, int]:
        """What a node that joins begins with, and its first round: none that others would have to repeat for it."""
        return self._plan.experiment.rejoin if has_lived else "fresh", self.progress.round_of_the_slowest()

    def may_join(self, rank: int) -> bool:
        """Not a node that has done all of its work: there is nothing left for it to come back to."""
        return rank not in self._done

    def has_failed(self, rank: int) -> bool:
        return any(each.node == self._names[rank] for each in self._failures)

    @property
    def has_averages_at_the_end(self) -> bool:
        """Not where a user waits for the end, nor where what evaluates models may be gone."""
        return self.reason != INTERRUPTED and not self.broken

    def over(self, t: float) -> Over:
        """For control's log."""
        return Over(t, self.reason, len(self._finished - self._doomed), len(self._failures))

    def outcome(self, t: float, *, has_begun: bool) -> Outcome:
        return Outcome(
            self.reason,
            t,
            len(self._finished - self._doomed),
            tuple(sorted(self._failures, key=lambda each: each.node)),
            self.progress.look(t) if has_begun else None,
            broken=tuple(self.broken),
            remarks=self.progress.remarks,
        )
