"""All processes of a learner's container but the first: the learner, and whatever it has started.

Takes the learner's process id, for where the first process is not process 1 and so cannot know the others; touches
those processes.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from testbed.node.compute_slots import holders
from testbed.runtimes.tracking.proc_stat import stands_still

_EVERYBODY = -1
"""To `kill`: whom the caller may signal, but for itself and process 1."""


def signal_all(learner: int | None, number: signal.Signals) -> None:
    """At once: nobody can start others meanwhile who would not get it."""
    whom = _EVERYBODY if os.getpid() == 1 else learner
    if whom is not None:
        with suppress(ProcessLookupError):
            os.kill(whom, number)


def all_stand_still(learner: int | None) -> bool:
    return all(stands_still(each) for each in _others(learner))


def hold_slot(slots: Path, learner: int | None) -> bool:
    """Whether one of them computes, and keeps a slot from all other learners."""
    return not holders(slots).isdisjoint(_others(learner))


def end_the_rest() -> None:
    """The learner is dead, and so is all that it has left: nothing else lives in its container."""
    if os.getpid() == 1:
        signal_all(None, signal.SIGKILL)


def _others(learner: int | None) -> set[int]:
    if os.getpid() != 1:
        return set() if learner is None else {learner}
    there = {int(each) for each in os.listdir("/proc") if each.isdecimal()}
    return {each for each in there if each != 1 and _is_ours(each)}


def _is_ours(pid: int) -> bool:
    """Root may have started something in here, which no learner's affair is."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
