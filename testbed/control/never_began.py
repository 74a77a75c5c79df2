"""Whether a run that is over, or dead, ever began.

Takes a run directory, gives yes or no; reads the ends of control's log and of the nodes' journals. A run's time begins
to pass with its nodes, so one in which nothing stands but what happened at 0 has no results to lose: what it needed
could not be started, its code was wrong, or somebody ended it before.
"""

from __future__ import annotations

import json
from pathlib import Path

from testbed.control.log import last_word
from testbed.rundir import RunDirectory, open_plain

_TAIL_BYTES = 1 << 16
_ENDED_WELL = ("finished", "time", "accuracy")


def never_began(run: RunDirectory) -> bool:
    """False where that cannot be known: a file that cannot be read may say anything."""
    _, over = last_word(run.events)
    if over is not None and over.reason in _ENDED_WELL:
        return False
    return all(_is_all_at_0(path) for path in (run.events, *(run.node(name).journal for name in run.node_names())))


def _is_all_at_0(records: Path) -> bool:
    """Records are in the order of their time, so the last one tells; it may be torn, and then the one before."""
    try:
        with open_plain(records) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().splitlines(keepends=True)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    whole = [line for line in lines if line.endswith(b"\n")]
    if not whole:
        return size < _TAIL_BYTES
    try:
        return float(json.loads(whole[-1])["t"]) == 0.0
    except (KeyError, TypeError, ValueError):
        return False
