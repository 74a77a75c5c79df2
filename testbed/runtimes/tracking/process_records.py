"""Where the sockets and ids of one local run lie.

Takes a run directory, gives paths; makes the private folder of sockets and the record of processes.
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
"""Of every node's ZeroMQ, at its own address."""
CONNECTED_S = 20.0
"""How long, in emulated time, a node waits before the start for peers that do not answer."""
PREFIX = "testbed-"
"""How the name of a folder of sockets begins."""
CONTENTS = frozenset({"nodes", "slots", "control.sock", "commands.sock", "fabric.sock"})
"""All that can be in one."""


class ProcessRecord(msgspec.Struct, frozen=True):
    """A process of the run: the time of its start tells it from a later one with the same id."""

    name: str
    pid: int
    start_ticks: int


class RunRecord(msgspec.Struct, frozen=True):
    """What `destroy` must know to leave nothing behind."""

    sockets: str
    processes: list[ProcessRecord]
    folder: tuple[int, int] | None = None
    """Which run directory it is of, by device and inode: it may be renamed, and a copy of it is another."""
    on_volumes: bool = False
    """Its sockets lie on volumes of an Engine, and are reached through it."""
    mark: str = ""
    """What its programs have in their environment; nothing in records of older versions."""
    unseen: bool = False
    """Its processes cannot be seen from here: the Engine is asked whether it goes on."""


@dataclass(frozen=True)
class Places:
    """Paths of one local run."""

    run: RunDirectory
    sockets: Path
    """Short, since paths of UNIX sockets are; only this user can enter it."""
    mark: str = ""
    """What the run's programs have in their environment, for whoever ends what they leave."""

    @property
    def control_socket(self) -> Path:
        return self.sockets / "control.sock"

    @property
    def commands_socket(self) -> Path:
        return commands_socket(self.sockets)

    @property
    def runtime(self) -> Path:
        """Folder of what the runtime's own processes say."""
        return self.record.parent

    @property
    def slots(self) -> Path:
        return self.sockets / "slots"

    @property
    def hosts(self) -> Path:
        """The addresses of nodes by name, as /etc/hosts has them."""
        return hosts_of_run(self.run)

    @property
    def engine(self) -> Path:
        return self.run.path / "engine"

    @property
    def record(self) -> Path:
        return record_of(self.run)

    def write_record(
        self, processes: Iterable[ProcessRecord], *, on_volumes: bool = False, unseen: bool = False
    ) -> None:
        """Replace the record: a reader sees the old or the new one."""
        part = self.record.with_suffix(".part")
        try:
            part.unlink(missing_ok=True)  # whatever somebody has put there
            record = RunRecord(
                sockets=str(self.sockets),
                processes=list(processes),
                folder=_identity(self.run),
                on_volumes=on_volumes,
                unseen=unseen,
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
        """The sockets are gone, and the record with them."""
        clear_away(self.sockets)
        self.record.unlink(missing_ok=True)


def make_places(run: RunDirectory) -> Places:
    """Their folders, and a record that names this process; raises CouldNotStart, with nothing left, when denied."""
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
    """The record comes first: whatever happens from then on, `destroy` knows what there is."""
    places.runtime.mkdir(exist_ok=True)
    places.write_record([process_record("control", os.getpid())])
    (places.sockets / "nodes").mkdir()
    places.slots.mkdir()
    places.engine.mkdir(exist_ok=True)


def process_record(name: str, pid: int) -> ProcessRecord:
    found = stat_of(pid)
    return ProcessRecord(name, pid, 0 if found is None else found.start_ticks)


def commands_socket(sockets: Path) -> Path:
    """Where other commands reach the run's control."""
    return sockets / "commands.sock"


def hosts_of_run(run: RunDirectory) -> Path:
    return run.path / "runtime" / "hosts"


def record_of(run: RunDirectory) -> Path:
    return run.path / "runtime" / "processes.json"


def read_record(run: RunDirectory) -> RunRecord | None:
    """None for a run that has left nothing behind, and where the record came with a copy of another run's directory."""
    try:
        record = read_document(record_of(run), run.path, RunRecord)
        return record if record.folder in (None, _identity(run)) else None
    except (OSError, Malformed):
        return None


def _identity(run: RunDirectory) -> tuple[int, int]:
    info = run.path.stat()
    return info.st_dev, info.st_ino
