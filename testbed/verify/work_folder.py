"""The working folder of a verification, and removal of what killed ones left behind.

Takes nothing, gives a folder with a record of its owner and the processes started; ends processes and removes folders
of verifications that are over. The record identifies a process by id and start time, never by name.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from testbed.run_files import Malformed, read_document
from testbed.runtimes.tracking.leftovers import end_all, is_alive
from testbed.runtimes.tracking.process_records import ProcessRecord, process_record

PREFIX = "testbed-verify-"
RECORD = "owner.json"


class Owned(msgspec.Struct, frozen=True):
    """The owning process, and the processes that it has started."""

    owner: ProcessRecord
    started: tuple[ProcessRecord, ...] = ()


@dataclass
class WorkFolder:
    """A folder with a short path that only this user can read."""

    folder: Path
    _owner: ProcessRecord = field(default_factory=lambda: process_record("verify", os.getpid()))
    _started: list[ProcessRecord] = field(default_factory=list)

    def has_started(self, name: str, pid: int) -> None:
        """Records a process for `remove_leftovers` to end, should this one be killed."""
        self._started.append(process_record(name, pid))
        self.write()

    def write(self) -> None:
        """Replaces the record atomically."""
        part = self.folder / (RECORD + ".part")
        part.write_bytes(msgspec.json.encode(Owned(self._owner, tuple(self._started))))
        os.replace(part, self.folder / RECORD)


@contextmanager
def make_work_folder() -> Iterator[WorkFolder]:
    """A folder that is removed afterwards; after a kill, the next verification removes it."""
    work = WorkFolder(Path(tempfile.mkdtemp(prefix=PREFIX)))
    try:
        work.write()
        yield work
    finally:
        shutil.rmtree(work.folder, ignore_errors=True)


def remove_leftovers() -> list[str]:
    """Removes what this user's ended verifications have left; returns the names of their folders."""
    removed = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(PREFIX + "*")):
        owned = _read(folder)
        if owned is None or is_alive(owned.owner):
            continue
        if not end_all(owned.started):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder.name)
    return removed


def _read(folder: Path) -> Owned | None:
    """None for a folder that this user has not made like this: other users can write to the same temporary folder."""
    with suppress(OSError, Malformed):
        info = folder.lstat()
        if stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o022:
            return read_document(folder / RECORD, folder, Owned)
    return None
