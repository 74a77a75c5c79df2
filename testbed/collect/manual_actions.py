"""Faults and link changes that people made by hand during a run, beyond its plan.

Takes a run's directory and the actions in control's log, gives words; reads the plan where an action may be either.
Such a run is not a repetition of any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from testbed.collect.partial_records import Event
from testbed.errors import TestbedError
from testbed.plan.files import read_plan
from testbed.rundir import RunDirectory

_ALWAYS = frozenset({"kill", "partition", "heal", "flap", "link-set", "link-reset"})
"""Always manual: the topology's own changes of links are logged as `network-changed`."""
_ACTIONS = frozenset({"join", "leave", "crash", "pause", "resume", "disconnect", "reconnect"})
"""Manual or planned: only their time distinguishes them."""
_CLOSE_S = 1e-6


def manual_actions(run: RunDirectory, done: Sequence[Event]) -> tuple[str, ...]:
    """Each kind of manual action once, such as `kill` or `link-set`, in the order of first occurrence."""
    planned = _planned(run) if any(event.what in _ACTIONS for event in done) else None
    found = [
        event.what
        for event in done
        if event.what in _ALWAYS
        or (event.what in _ACTIONS and planned is not None and _ticks(event.planned_t or 0.0) not in planned)
    ]
    return tuple(dict.fromkeys(found))


def _planned(run: RunDirectory) -> frozenset[int] | None:
    """When the topology's events begin and end; None where the plan cannot be read."""
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
