"""How long nothing has happened in a run, and who waits for whom.

Takes the records of all nodes as they are written and other news, gives seconds and words; touches nothing. All times
are emulated.
"""

from __future__ import annotations

from testbed.records import AnyRecord, End, Event, Round, Start

LEAST_S = 60.0
ROUNDS = 10.0
"""Of silence, counted in the longest round so far, before nobody believes that anything will come."""
_TELLING_S = 2.0
"""From the silence's beginning until who waits has begun to wait, and from its patience's end until it is heard."""
PEER_MISSING = "peer-missing"
_WAITS = ": wait"
"""Of a missing peer: more of the same silence."""
_MOST_NAMED = 3


class Silence:
    """Since when."""

    def __init__(self) -> None:
        self._since = 0.0
        self._longest_round_s = 0.0
        self._last: dict[int, float] = {}
        """When each node's last round was over."""
        self._awaited: dict[int, str] = {}
        self.recorded_at = 0.0

    def recorded(self, rank: int, record: AnyRecord, now: float) -> None:
        """A node has said something."""
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

    def awaited(self, rank: int) -> str | None:
        """Whom a node waits for, as it has said, if that was its last word."""
        return self._awaited.get(rank)


def _awaited(detail: str) -> str:
    """Of `round 3: a.0, a.1: wait`."""
    what, _, rest = detail.partition(": ")
    names = rest.rpartition(": ")[0].split(", ")
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more} in {what}"
