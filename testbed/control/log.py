"""Control's log of a run: who joined, what changed, who failed, how the average model fares.

Takes records, touches `events.jsonl`. Records of one instant are in the order of their text, since which of them was
told first means nothing.
"""

from __future__ import annotations

from pathlib import Path

from testbed.journal import Journal
from testbed.records import AnyRecord, Over, line


class ControlLog:
    """Appends to the file an instant at a time."""

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)
        self._instant: list[AnyRecord] = []

    def write(self, record: AnyRecord) -> None:
        if self._instant and self._instant[0].t != record.t:
            self.flush()
        self._instant.append(record)

    def flush(self) -> None:
        for record in sorted(self._instant, key=lambda each: (isinstance(each, Over), line(each))):
            self._journal.write(record)
        self._instant.clear()

    def close(self) -> None:
        self.flush()
        self._journal.close()
