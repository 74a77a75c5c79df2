"""The folder of sockets and the record of processes of one run.

Takes a run directory, gives paths; makes the private folder of sockets, and writes and reads the record.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from testbed.errors import CouldNotStart
from testbed.journal import CannotWrite
from testbed.linux import open_flags
from testbed.run_files import Malformed, read_document
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.ownership import new_mark
from testbed.runtimes.tracking.proc_stat import stat_of
from testbed.runtimes.tracking.removal import clear_away

PORT = 5555
"""The port at which every node listens, at the node's address."""
CONNECTED_S = 20.0
"""How long, in emulated time, a node waits before the start for peers that do not answer."""
PREFIX = "testbed-"
"""Prefix of the names of folders of sockets."""
CONTENTS = frozenset({"nodes", "slots", "control.sock", "commands.sock", "fabric.sock"})
"""All that a folder of sockets may contain."""


class ProcessRecord(msgspec.Struct, frozen=True):
    """A process of the run. The start time tells it from a later process with the same id."""

    name: str
    pid: int
    start_ticks: int


class RunRecord(msgspec.Struct, frozen=True):
    """A run's record on disk: what `destroy` must know to remove everything."""

    sockets: str
    processes: list[ProcessRecord]
    folder: tuple[int, int] | None = None
    """Device and inode of the run directory. They survive a rename, and differ in a copy."""
    on_volumes: bool = False
    """The sockets are on volumes, and are reached through the Docker Engine."""
    mark: str = ""
    """The mark in the environment of the run's programs; empty in records of earlier versions."""
    unseen: bool = False
    """This machine does not see the run's processes; the Docker Engine knows whether the run goes on."""
    runtime: str = ""
    """Its name; empty for real processes, and in records of earlier versions."""


@dataclass(frozen=True)
class Places:
    """The paths of one run."""

    run: RunDirectory
    sockets: Path
    """A short path, as UNIX sockets require; only this user can enter it."""
    mark: str = ""
    """The mark in the environment of the run's programs, by which their descendants are found and ended."""

    @property
    def control_socket(self) -> Path:
        return self.sockets / "control.sock"

    @property
    def commands_socket(self) -> Path:
        return commands_socket(self.sockets)

    @property
    def runtime(self) -> Path:
        """The folder of the runtime's own files."""
        return self.record.parent

    @property
    def slots(self) -> Path:
        return self.sockets / "slots"

    @property
    def hosts(self) -> Path:
        """The nodes' names and addresses, in the format of /etc/hosts."""
        return hosts_of_run(self.run)

    @property
    def engine(self) -> Path:
        return self.run.path / "engine"

    @property
    def record(self) -> Path:
        return record_of(self.run)

    def write_record(
        self, processes: Iterable[ProcessRecord], *, on_volumes: bool = False, unseen: bool = False, runtime: str = ""
    ) -> None:
        """Replaces the record atomically."""
        part = self.record.with_suffix(".part")
        try:
            part.unlink(missing_ok=True)  # it may be a link
            record = RunRecord(
                sockets=str(self.sockets),
                processes=list(processes),
                folder=_identity(self.run),
                on_volumes=on_volumes,
                unseen=unseen,
                runtime=runtime,
                mark=self.mark,
            )
            new = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | open_flags("O_CLOEXEC", "O_NOFOLLOW"), 0o600)
            with open(new, "wb") as file:
                file.write(msgspec.json.encode(record))
            os.replace(part, self.record)
        except OSError as problem:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise CannotWrite(f"cannot write {self.record}: {problem.strerror or problem}") from problem

    def remove(self) -> None:
        """Removes the sockets and the record."""
        clear_away(self.sockets)
        self.record.unlink(missing_ok=True)


def make_places(run: RunDirectory) -> Places:
    """Makes the run's folders, and a record of this process. If denied, leaves nothing and raises CouldNotStart."""
    try:
        sockets = Path(tempfile.mkdtemp(prefix=PREFIX))
    except OSError as problem:
        raise CouldNotStart(f"cannot make a folder of sockets in {tempfile.gettempdir()}: {problem.strerror}") from None
    places = Places(run, sockets, new_mark())
    try:
        _make(places)
    except OSError as problem:
        places.remove()
        raise CouldNotStart(f"cannot write the run's folders: {problem.strerror or problem}") from None
    except CannotWrite as problem:
        places.remove()
        raise CouldNotStart(problem.message) from None
    return places


def _make(places: Places) -> None:
    """Writes the record first, so that `destroy` finds whatever comes after it."""
    places.runtime.mkdir(exist_ok=True)
    places.write_record([process_record("control", os.getpid())])
    (places.sockets / "nodes").mkdir()
    places.slots.mkdir()
    places.engine.mkdir(exist_ok=True)


def process_record(name: str, pid: int) -> ProcessRecord:
    found = stat_of(pid)
    return ProcessRecord(name, pid, 0 if found is None else found.start_ticks)


def commands_socket(sockets: Path) -> Path:
    """The socket on which control takes commands."""
    return sockets / "commands.sock"


def hosts_of_run(run: RunDirectory) -> Path:
    return run.path / "runtime" / "hosts"


def record_of(run: RunDirectory) -> Path:
    return run.path / "runtime" / "processes.json"


def read_record(run: RunDirectory) -> RunRecord | None:
    """The run's record; None if there is none, or it came with a copy of another run's directory."""
    try:
        record = read_document(record_of(run), run.path, RunRecord)
        return record if record.folder in (None, _identity(run)) else None
    except (OSError, Malformed):
        return None


def _identity(run: RunDirectory) -> tuple[int, int]:
    info = run.path.stat()
    return info.st_dev, info.st_ino
