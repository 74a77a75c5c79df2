"""Whether a run waits in vain: how long nothing has happened in it, and which node waits for which.

Takes the records of all nodes as they are written, the topology's events and other news, gives seconds, decisions and
words; touches nothing. All times are emulated. In virtual time a run stalls when nothing is left that could happen, in
real time when nothing has happened for long enough; the words are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from testbed.network.timeline import Change
from testbed.plan.model import RunPlan
from testbed.records import AnyRecord, End, Event, Failure, Round, Start

LEAST_S = 60.0
ROUNDS = 10.0
"""As many of the longest rounds so far without any news mean that none will come."""
_TELLING_S = 2.0
"""From the last news until a node has begun to wait, and from the end of its patience until that is heard."""
PEER_MISSING = "peer-missing"
_WAITS = ": wait"
"""Of a missing peer: the node goes on waiting for it, which is no news."""
_MOST_NAMED = 3
_CARRIED_BYTES = 4096
"""Between two looks at time scale 1: nodes that only wait send hardly anything that arrives."""
_HEADERS_BYTES = 52
"""Of every packet, of IP and of TCP with timestamps: what kernels tell each other of idle connections has no more."""
_MOST_EVENTS = 10
"""After so many changes without a record of any node, the next one will not help either."""


class Inactivity:
    """How long nothing has happened."""

    def __init__(self) -> None:
        self._since = 0.0
        self._longest_round_s = 0.0
        self._last: dict[int, float] = {}
        """When each node's last round was over."""
        self._awaited: dict[int, str] = {}
        self.recorded_at = 0.0

    def recorded(self, rank: int, record: AnyRecord, now: float) -> None:
        """A node has written a record."""
        if isinstance(record, Event) and record.what == PEER_MISSING:
            self._awaited[rank] = _awaited(record.detail)
            if not record.detail.endswith(_WAITS):  # it goes on without, and will record that
                self.news(now)
            return
        self.recorded_at = now
        self.news(now)
        self._awaited.pop(rank, None)
        if isinstance(record, Round):
            self._longest_round_s = max(self._longest_round_s, record.t - self._last.get(rank, record.t))
        if isinstance(record, Start | Round):
            self._last[rank] = record.t
        elif isinstance(record, End):
            self._last.pop(rank, None)

    def news(self, now: float) -> None:
        """Something else has happened, or is under way."""
        self._since = max(self._since, now)

    def lasts_s(self, now: float) -> float:
        return now - self._since

    def limit_s(self, patience_s: float, planned_round_s: float) -> float:
        """How long it may last: nodes that miss a peer say so after their patience."""
        return max(LEAST_S, patience_s + _TELLING_S, ROUNDS * self._longest_round_s, ROUNDS * planned_round_s)

    @property
    def awaited(self) -> Mapping[int, str]:
        """What nodes wait for, by rank, where that was the last they said."""
        return self._awaited


class EventsToCome:
    """What the topology's events still have in store."""

    def __init__(self, changes: Iterator[Change]) -> None:
        self._changes = changes
        self._next = next(changes, None)
        self._unanswered = 0
        self._answered_at = 0.0

    def may_help(self, now: float, answered_at: float) -> bool:
        """Whether a change is still to come that may let nodes go on; or has just come."""
        if answered_at > self._answered_at:
            self._answered_at, self._unanswered = answered_at, 0
        came = False
        while self._next is not None and self._next.at_s <= now:
            self._next = next(self._changes, None)
            self._unanswered += 1
            came = True
        return (came or self._next is not None) and self._unanswered < _MOST_EVENTS


class CarriedContent:
    """What has arrived of messages; every connection's signs of life are of the kernel, and in real time."""

    def __init__(self, time_scale: float) -> None:
        self._least_bytes = _CARRIED_BYTES / time_scale
        self._before = 0

    def is_more(self, packets: int, bytes_: int) -> bool:
        """Whether it is more than at the last look, to speak of; both are counted from the beginning."""
        content = bytes_ - packets * _HEADERS_BYTES
        before, self._before = self._before, content
        return content - before > self._least_bytes


def failures_in_vain(
    plan: RunPlan, waiting: Iterable[int], awaited: Mapping[int, str], since: str
) -> dict[int, Failure]:
    """The failures, by rank, of the nodes of a stalled run that wait; some of them say for what."""
    return {rank: Failure(_in_vain(plan, awaited.get(rank), since)) for rank in waiting}


def _in_vain(plan: RunPlan, awaited: str | None, since: str) -> str:
    if awaited is None:
        return f"waits for a message that will never come, in vain: {since}"
    hint = "; `missing.then: skip` goes on without" if plan.experiment.missing.then == "wait" else ""
    return f"waits for {awaited}, in vain: {since}{hint}"


def some_names(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


def _awaited(detail: str) -> str:
    """Of `round 3: a.0, a.1: wait`."""
    what, _, rest = detail.partition(": ")
    return f"{some_names(rest.rpartition(': ')[0].split(', '))} in {what}"
