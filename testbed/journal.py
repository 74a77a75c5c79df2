"""A node's journal: one record a line, appended, and in the file before anything else happens.

Takes records, touches the journal's file.
"""

from __future__ import annotations

import os
from pathlib import Path

from testbed.errors import CouldNotStart
from testbed.linux import open_flags
from testbed.records import AnyRecord, line


class CannotWrite(CouldNotStart):
    """The run directory cannot be written: nothing that happens from now on would be known.

    A run that has begun ends for it, broken, with an outcome that says so.
    """


class Journal:
    """Appends to a file. A node that is killed leaves at worst one torn last line."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | open_flags("O_CLOEXEC")
        self._path = path
        try:
            self._file = os.open(path, flags, 0o644)
            self._mend(path)
        except OSError as problem:
            raise CannotWrite(f"cannot write {path}: {problem.strerror or problem}") from problem

    def _mend(self, path: Path) -> None:
        """A torn last line, from a life that was cut short, must not swallow the next record."""
        size = os.fstat(self._file).st_size
        if size:
            with path.open("rb") as written:
                written.seek(size - 1)
                if written.read(1) != b"\n":
                    os.write(self._file, b"\n")

    def write(self, record: AnyRecord) -> None:
        if self._file < 0:
            return  # a dead node says nothing, whatever its code still tries
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
