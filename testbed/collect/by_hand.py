"""What people did to a run while it went on: faults and changed links that its plan does not have.

Takes a run's directory and what control has seen done, gives words; reads the plan where nodes had something done to
them. Such a run is not a repetition of any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from testbed.collect.wanted import Event
from testbed.errors import TestbedError
from testbed.plan.files import read_plan
from testbed.rundir import RunDirectory

_ALWAYS = frozenset({"kill", "partition", "heal", "flap", "link-set", "link-reset"})
"""The topology's own changes of links are `network-changed`."""
_ACTIONS = frozenset({"join", "leave", "crash", "pause", "resume", "disconnect", "reconnect"})
"""What both people and a topology's events do to nodes: only the time tells them apart."""
_CLOSE_S = 1e-6


def done_by_hand(run: RunDirectory, done: Sequence[Event]) -> tuple[str, ...]:
    """Each kind once, by its first time, such as `kill` or `link-set`."""
    planned = _planned(run) if any(event.what in _ACTIONS for event in done) else None
    found = [
        event.what
        for event in done
        if event.what in _ALWAYS
        or (event.what in _ACTIONS and planned is not None and _ticks(event.planned_t or 0.0) not in planned)
    ]
    return tuple(dict.fromkeys(found))


def _planned(run: RunDirectory) -> frozenset[int] | None:
    """When the topology's events begin and end something; None where nobody can say."""
    try:
        return frozenset(map(_ticks, _times(run)))
    except TestbedError:
        return None


def _times(run: RunDirectory) -> Iterator[float]:
    for event in read_plan(run.plan, run.path).load_topology().events:
        lasts_s: float = getattr(event, "for_s", None) or 0.0
        for at_s in event.when.times():
            yield at_s
            yield at_s + lasts_s


def _ticks(t: float) -> int:
    return round(t / _CLOSE_S)
