"""Control's log of a run: who joined, what changed, who failed, how the average model fares.

Takes records, touches `events.jsonl`; reads the ends of a run's files. In virtual time records of one instant are in
the order of their text, since which of them was told first means nothing. In real time each is in the file at once,
for commands that look on.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from testbed.control.outcome import ENDED_WELL
from testbed.journal import Journal
from testbed.records import AnyRecord, Over, line
from testbed.run_files import read_end
from testbed.rundir import RunDirectory

_TAIL_BYTES = 1 << 16


class ControlLog:
    """Appends to the file, one by one or an instant at a time."""

    def __init__(self, path: Path, *, is_virtual: bool = False) -> None:
        self._journal = Journal(path)
        self._is_virtual = is_virtual
        self._instant: list[AnyRecord] = []

    def write(self, record: AnyRecord) -> None:
        if not self._is_virtual:
            self._journal.write(record)
            return
        if self._instant and self._instant[0].t != record.t:
            self._write_instant()
        self._instant.append(record)

    def _write_instant(self) -> None:
        for record in sorted(self._instant, key=lambda each: (isinstance(each, Over), line(each))):
            self._journal.write(record)
        self._instant.clear()

    def close(self) -> None:
        self._write_instant()
        self._journal.close()


def last_word(events: Path) -> tuple[float | None, Over | None]:
    """When the last record of control's log was, and that record if the run is over."""
    try:
        said = read_end(events, events.parent, _TAIL_BYTES).splitlines()[-1]
        t = float(json.loads(said)["t"])
    except (OSError, IndexError, KeyError, TypeError, ValueError, RecursionError):
        return None, None
    try:
        return t, msgspec.json.decode(said, type=Over)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return t, None


def ended_before_start(run: RunDirectory) -> bool:
    """Whether nothing stands in a run but what happened at 0: it has no results to lose.

    A run's time begins to pass with its nodes. False where that cannot be known: a file that cannot be read may say
    anything.
    """
    _, over = last_word(run.events)
    if over is not None and over.reason in ENDED_WELL:
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
    whole = [each for each in end.splitlines(keepends=True) if each.endswith(b"\n")]
    if not whole:
        return len(end) < _TAIL_BYTES
    try:
        return float(json.loads(whole[-1])["t"]) == 0.0
    except (KeyError, TypeError, ValueError, RecursionError):
        return False
