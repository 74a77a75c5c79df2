"""Where the sockets and ids of one local run lie.

Takes a run directory, gives paths; makes the private folder of sockets and the record of processes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from testbed.rundir import RunDirectory

PORT = 5555
"""Of every node's ZeroMQ, at its own address."""
PREFIX = "testbed-"
"""How the name of a folder of sockets begins."""


class ProcessRecord(msgspec.Struct, frozen=True):
    """A process of the run: the time of its start tells it from a later one with the same id."""

    name: str
    pid: int
    start_ticks: int


class Recorded(msgspec.Struct, frozen=True):
    """What `destroy` must know to leave nothing behind."""

    sockets: str
    processes: list[ProcessRecord]


@dataclass(frozen=True)
class Places:
    """Paths of one local run."""

    run: RunDirectory
    sockets: Path
    """Short, since paths of UNIX sockets are; only this user can enter it."""

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
    def engine(self) -> Path:
        return self.run.path / "engine"

    @property
    def record(self) -> Path:
        return record_of(self.run)

    def write_record(self, processes: Iterable[ProcessRecord]) -> None:
        """Replace the record: a reader sees the old or the new one."""
        part = self.record.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(Recorded(str(self.sockets), list(processes))))
        os.replace(part, self.record)

    def remove(self) -> None:
        """The sockets are gone, and the record with them."""
        shutil.rmtree(self.sockets, ignore_errors=True)
        self.record.unlink(missing_ok=True)


def make_places(run: RunDirectory) -> Places:
    """Their folders, and a record that names this process."""
    sockets = Path(tempfile.mkdtemp(prefix=PREFIX))
    places = Places(run, sockets)
    (sockets / "nodes").mkdir()
    places.slots.mkdir()
    places.engine.mkdir(exist_ok=True)
    places.runtime.mkdir(exist_ok=True)
    places.write_record([process_record("control", os.getpid())])
    return places


def process_record(name: str, pid: int) -> ProcessRecord:
    return ProcessRecord(name, pid, start_ticks(pid))


def commands_socket(sockets: Path) -> Path:
    """Where other commands reach the run's control."""
    return sockets / "commands.sock"


def record_of(run: RunDirectory) -> Path:
    return run.path / "runtime" / "processes.json"


def read_record(run: RunDirectory) -> Recorded | None:
    """None for a run that has left nothing behind."""
    try:
        return msgspec.json.decode(record_of(run).read_bytes(), type=Recorded)
    except (OSError, msgspec.DecodeError):
        return None


def start_ticks(pid: int) -> int:
    """When a process began, in the kernel's ticks; 0 when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[19])
