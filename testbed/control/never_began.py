"""Whether a run that is over, or dead, ever began.

Takes a run directory, gives yes or no; reads the ends of control's log and of the nodes' journals. A run's time begins
to pass with its nodes, so one in which nothing stands but what happened at 0 has no results to lose: what it needed
could not be started, its code was wrong, or somebody ended it before.
"""

from __future__ import annotations

import json
from pathlib import Path

from testbed.control.log import last_word
from testbed.run_files import read_end
from testbed.rundir import RunDirectory

_TAIL_BYTES = 1 << 16
_ENDED_WELL = ("finished", "time", "accuracy")


def never_began(run: RunDirectory) -> bool:
    """False where that cannot be known: a file that cannot be read may say anything."""
    _, over = last_word(run.events)
    if over is not None and over.reason in _ENDED_WELL:
        return False
    journals = (run.node(name).journal for name in run.node_names())
    return all(_is_all_at_0(path, run.path) for path in (run.events, *journals))


def _is_all_at_0(records: Path, run: Path) -> bool:
    """Records are in the order of their time, so the last one tells; it may be torn, and then the one before."""
    try:
        end = read_end(records, run, _TAIL_BYTES)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    whole = [line for line in end.splitlines(keepends=True) if line.endswith(b"\n")]
    if not whole:
        return len(end) < _TAIL_BYTES
    try:
        return float(json.loads(whole[-1])["t"]) == 0.0
    except (KeyError, TypeError, ValueError, RecursionError):
        return False
