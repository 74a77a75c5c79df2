"""Ends the processes that a run has left behind, and no others.

Takes a run directory, gives what was done; touches the run's folder of sockets, and processes of the run. The run's
record names processes by id and start time, since ids are reused. They are only ended if the kernel confirms that they
are the run's (`ownership`). Processes that they have started are found by the run's mark.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.file_owners import LEARNERS, hand_over
from testbed.runtimes.tracking.ownership import end_marked, held, is_of_run, owner_of
from testbed.runtimes.tracking.proc_stat import stat_of
from testbed.runtimes.tracking.process_records import CONTENTS, PREFIX, ProcessRecord, RunRecord, read_record, record_of

_GOODBYE_S = 15.0
"""How long a run may take to end in good order."""
_DEATH_S = 5.0
_LOOK_S = 0.02


@dataclass(frozen=True)
class Removed:
    """What was removed of a run."""

    ended: tuple[str, ...] = ()
    """Names of ended processes."""
    files: bool = False
    lasting: tuple[str, ...] = ()
    """Processes that could not be ended."""
    strangers: tuple[int, ...] = ()
    """Ids in the record of processes that are not the run's. They were left alone."""
    is_copy: bool = False
    """The record is of another run, whose directory was copied. Its processes were left alone."""
    remark: str = ""
    """Why nothing was removed."""

    @property
    def did_something(self) -> bool:
        return bool(self.ended or self.files or self.lasting or self.strangers or self.is_copy)


def is_alive(process: ProcessRecord) -> bool:
    """Whether the process runs: its id was not reused, and it is no zombie."""
    found = stat_of(process.pid)
    return found is not None and found.start_ticks == process.start_ticks and not found.is_dead


def is_led_here(record: RunRecord) -> bool:
    """Whether this machine sees the process that leads the run."""
    return any(each.name == "control" and is_alive(each) for each in record.processes)


def living(run: RunDirectory) -> list[ProcessRecord]:
    """The recorded processes that run."""
    record = read_record(run)
    return [] if record is None else [each for each in record.processes if is_alive(each)]


def end_all(processes: Iterable[ProcessRecord], within_s: float = _DEATH_S) -> list[ProcessRecord]:
    """Kills processes and waits for their end; gives those that still run after the timeout."""
    left = [each for each in processes if is_alive(each)]
    for each in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each.pid, signal.SIGKILL)
    return _wait(left, within_s)


def destroy(run: RunDirectory) -> Removed:
    """Removes everything of the run but its results. A run that goes on ends in good order first. May be repeated."""
    record = read_record(run)
    if record is None:
        return Removed(is_copy=record_of(run).exists())
    there = [each for each in record.processes if is_of(each, run, record.mark)]
    strangers = tuple(each.pid for each in record.processes if each not in there and is_alive(each))
    for control in (each for each in there if each.name == "control" and each.pid != os.getpid()):
        tell(control, signal.SIGTERM, run, record.mark)
        _wait([control], _GOODBYE_S)
    record = read_record(run) or record  # the run may have started more processes
    ours = [each for each in record.processes if each.pid != os.getpid() and is_of(each, run, record.mark)]
    for each in ours:
        tell(each, signal.SIGKILL, run, record.mark)
    lasting = _wait(ours, _DEATH_S)
    names = [each.name for each in there]
    if more := end_marked(record.mark, _owners(run)):
        names.append(f"{more} program{'s' if more > 1 else ''} that its nodes or users had started there")
    if lasting:
        return Removed(tuple(names), lasting=tuple(each.name for each in lasting), strangers=strangers)
    if strangers:  # keep the record
        return Removed(tuple(names), strangers=strangers)
    _remove(Path(record.sockets))
    if os.geteuid() in (0, run.path.stat().st_uid):
        hand_over(run)
    for unfinished in (record_of(run).with_suffix(".part"), *run.path.glob(".*.tmp"), *run.path.glob("engine/.*.tmp")):
        unfinished.unlink(missing_ok=True)
    record_of(run).unlink(missing_ok=True)
    return Removed(tuple(names), files=True)


def is_of(process: ProcessRecord, run: RunDirectory, mark: str) -> bool:
    """Whether the recorded process runs, and is the run's."""
    if not is_alive(process) or owner_of(process.pid) not in _owners(run):
        return False
    return is_of_run(process.pid, mark, run.path)


def _owners(run: RunDirectory) -> frozenset[int]:
    """The users whose processes may be of the run."""
    learners = LEARNERS if os.geteuid() == 0 else ()
    return frozenset({os.geteuid(), run.path.stat().st_uid, *learners})


def tell(process: ProcessRecord, number: signal.Signals, run: RunDirectory, mark: str) -> None:
    """Signals a process of the run. Another process that has reused its id gets no signal."""
    with held(process.pid) as descriptor, suppress(ProcessLookupError, PermissionError):
        if descriptor is not None and is_of(process, run, mark):
            signal.pidfd_send_signal(descriptor, number)


def _wait(processes: list[ProcessRecord], within_s: float) -> list[ProcessRecord]:
    until = time.monotonic() + within_s
    left = [each for each in processes if is_alive(each)]
    while left and time.monotonic() < until:
        time.sleep(_LOOK_S)
        left = [each for each in left if is_alive(each)]
    return left


def _remove(sockets: Path) -> None:
    """Removes a folder of sockets. The record may be forged, so owner, name and contents are checked first."""
    with suppress(OSError):
        info = sockets.lstat()
        is_own = sockets.name.startswith(PREFIX) and info.st_uid == os.getuid()
        if is_own and {each.name for each in sockets.iterdir()} <= CONTENTS:
            shutil.rmtree(sockets, ignore_errors=True)
