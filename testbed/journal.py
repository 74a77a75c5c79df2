"""A node's journal: one record per line, appended and flushed at once.

Takes records, touches the journal's file.
"""

from __future__ import annotations

import os
from pathlib import Path

from testbed.errors import CouldNotStart
from testbed.linux import open_flags
from testbed.records import AnyRecord, line


class CannotWrite(CouldNotStart):
    """The run directory cannot be written, so nothing more can be recorded.

    It ends a run that has begun, as broken.
    """


class Journal:
    """Appends records to a file. A node that is killed leaves at worst one torn last line."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | open_flags("O_CLOEXEC")
        self._path = path
        try:
            self._file = os.open(path, flags, 0o644)
            self._mend(path)
        except OSError as problem:
            raise CannotWrite(f"cannot write {path}: {problem.strerror or problem}") from problem

    def _mend(self, path: Path) -> None:
        """Ends a torn last line of a killed process, so that the next record is readable."""
        size = os.fstat(self._file).st_size
        if size:
            with path.open("rb") as written:
                written.seek(size - 1)
                if written.read(1) != b"\n":
                    os.write(self._file, b"\n")

    def write(self, record: AnyRecord) -> None:
        if self._file < 0:
            return  # a dead node writes nothing, whatever its code still tries
        text = line(record)
        try:
            written = os.write(self._file, text)
        except OSError as problem:
            raise CannotWrite(f"cannot write {self._path}: {problem.strerror or problem}") from problem
        if written != len(text):
            raise CannotWrite(f"cannot write {self._path}: the disk is full")

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
