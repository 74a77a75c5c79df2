"""Ends what a run has left behind, and only that.

Takes a run directory, gives what was done; touches the run's folder of sockets, and processes of the run: those that
its record names (an id and the time of its start: another process may have got the id since) and that are the run's by
what the kernel tells of them, whatever a record says (`belonging`), and all that they have started.
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
from testbed.runtimes.tracking.file_owners import hand_over
from testbed.runtimes.tracking.learner_user import LEARNERS
from testbed.runtimes.tracking.ownership import end_marked, held, is_of_run, owner_of
from testbed.runtimes.tracking.proc_stat import stat_of
from testbed.runtimes.tracking.process_records import CONTENTS, PREFIX, ProcessRecord, RunRecord, read_record, record_of

_GOODBYE_S = 15.0
"""How long a run that goes on may take to end in good order."""
_DEATH_S = 5.0
_LOOK_S = 0.02


@dataclass(frozen=True)
class Removed:
    """What a run had left."""

    ended: tuple[str, ...] = ()
    """Processes, by name."""
    files: bool = False
    lasting: tuple[str, ...] = ()
    """Processes that could not be ended."""
    strangers: tuple[int, ...] = ()
    """Processes that its record names and that are not its own: they were left alone."""
    is_copy: bool = False
    """What is recorded is another run's, which was copied: it was left alone."""
    remark: str = ""
    """What else to say where nothing was removed."""

    @property
    def did_something(self) -> bool:
        return bool(self.ended or self.files or self.lasting or self.strangers or self.is_copy)


def is_alive(process: ProcessRecord) -> bool:
    """Whether it is still that process, and not a dead one that nobody has asked for."""
    found = stat_of(process.pid)
    return found is not None and found.start_ticks == process.start_ticks and not found.is_dead


def is_led_here(record: RunRecord) -> bool:
    """Whether the process that leads the run is one that this machine sees."""
    return any(each.name == "control" and is_alive(each) for each in record.processes)


def living(run: RunDirectory) -> list[ProcessRecord]:
    """The run's processes that are there."""
    record = read_record(run)
    return [] if record is None else [each for each in record.processes if is_alive(each)]


def end_all(processes: Iterable[ProcessRecord], within_s: float = _DEATH_S) -> list[ProcessRecord]:
    """Kills them and waits until they are gone; gives those that are not."""
    left = [each for each in processes if is_alive(each)]
    for each in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each.pid, signal.SIGKILL)
    return _wait(left, within_s)


def destroy(run: RunDirectory) -> Removed:
    """Nothing of the run is left but its results; a run that goes on ends in good order first. May be repeated."""
    record = read_record(run)
    if record is None:
        return Removed(is_copy=record_of(run).exists())
    there = [each for each in record.processes if is_of(each, run, record.mark)]
    strangers = tuple(each.pid for each in record.processes if each not in there and is_alive(each))
    for control in (each for each in there if each.name == "control" and each.pid != os.getpid()):
        tell(control, signal.SIGTERM, run, record.mark)
        _wait([control], _GOODBYE_S)
    record = read_record(run) or record  # it may have started more meanwhile
    ours = [each for each in record.processes if each.pid != os.getpid() and is_of(each, run, record.mark)]
    for each in ours:
        tell(each, signal.SIGKILL, run, record.mark)
    lasting = _wait(ours, _DEATH_S)
    names = [each.name for each in there]
    if more := end_marked(record.mark, _owners(run)):
        names.append(f"{more} program{'s' if more > 1 else ''} that its nodes or people had started there")
    if lasting:
        return Removed(tuple(names), lasting=tuple(each.name for each in lasting), strangers=strangers)
    if strangers:  # whatever they are, nothing is forgotten of them
        return Removed(tuple(names), strangers=strangers)
    _remove(Path(record.sockets))
    if os.geteuid() in (0, run.path.stat().st_uid):
        hand_over(run)
    for unfinished in (record_of(run).with_suffix(".part"), *run.path.glob(".*.tmp"), *run.path.glob("engine/.*.tmp")):
        unfinished.unlink(missing_ok=True)
    record_of(run).unlink(missing_ok=True)
    return Removed(tuple(names), files=True)


def is_of(process: ProcessRecord, run: RunDirectory, mark: str) -> bool:
    """Whether the process that a record names is there, and is the run's."""
    if not is_alive(process) or owner_of(process.pid) not in _owners(run):
        return False
    return is_of_run(process.pid, mark, run.path)


def _owners(run: RunDirectory) -> frozenset[int]:
    """Whose processes may be ended in the run's name."""
    learners = LEARNERS if os.geteuid() == 0 else ()
    return frozenset({os.geteuid(), run.path.stat().st_uid, *learners})


def tell(process: ProcessRecord, number: signal.Signals, run: RunDirectory, mark: str) -> None:
    """A signal for a process of the run, and for no other that has got its id since it was looked for."""
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
    """A record is a file that anybody who can write results may have changed: only what is ours goes."""
    with suppress(OSError):
        info = sockets.lstat()
        is_own = sockets.name.startswith(PREFIX) and info.st_uid == os.getuid()
        if is_own and {each.name for each in sockets.iterdir()} <= CONTENTS:
            shutil.rmtree(sockets, ignore_errors=True)
