"""The folder that one verification works in, and what is left of those that were killed.

Takes nothing, gives a folder with a record of who made it and of what it started; ends processes and removes folders of
verifications that are over, found by that record: an id and the time of its start, never by a name.
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
from testbed.runtimes.real.leftovers import end_all, is_alive
from testbed.runtimes.real.places import ProcessRecord, process_record

PREFIX = "testbed-verify-"
RECORD = "owner.json"


class Owned(msgspec.Struct, frozen=True):
    """Who works here, and what that process has started."""

    owner: ProcessRecord
    started: tuple[ProcessRecord, ...] = ()


@dataclass
class WorkFolder:
    """A folder with a short path, in which only this user can look."""

    folder: Path
    _owner: ProcessRecord = field(default_factory=lambda: process_record("verify", os.getpid()))
    _started: list[ProcessRecord] = field(default_factory=list)

    def has_started(self, name: str, pid: int) -> None:
        """Whoever cleans up after us ends that process."""
        self._started.append(process_record(name, pid))
        self.write()

    def write(self) -> None:
        """Replaces the record: a reader sees the old or the new one."""
        part = self.folder / (RECORD + ".part")
        part.write_bytes(msgspec.json.encode(Owned(self._owner, tuple(self._started))))
        os.replace(part, self.folder / RECORD)


@contextmanager
def make_work_folder() -> Iterator[WorkFolder]:
    """A folder that is gone afterwards; a kill leaves it to the next one."""
    work = WorkFolder(Path(tempfile.mkdtemp(prefix=PREFIX)))
    try:
        work.write()
        yield work
    finally:
        shutil.rmtree(work.folder, ignore_errors=True)


def remove_leftovers() -> list[str]:
    """What verifications of this user have left that are over; those that go on are left alone."""
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
    """None for whatever this user has not made so: others may write beside it."""
    with suppress(OSError, Malformed):
        info = folder.lstat()
        if stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o022:
            return read_document(folder / RECORD, folder, Owned)
    return None
