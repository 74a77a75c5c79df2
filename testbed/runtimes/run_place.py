"""The directory of a run that is about to start: a new one, or that of an earlier run.

Takes the folder of results, a name and options, gives a locked `RunDirectory` or raises UsageProblem with a hint. The
files of an earlier run that never began are moved to `failed-1` inside. Any other run is replaced only with
`--overwrite`, and never while processes, sockets or containers of it exist.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.control.log import ended_before_start, last_word
from testbed.errors import UsageProblem
from testbed.rundir import OWN, RunDirectory, TakenRun, create_run, is_run
from testbed.runtimes.registry import owner_of
from testbed.runtimes.runtime import Remains
from testbed.runtimes.tracking.leftovers import destroy

if TYPE_CHECKING:
    from testbed.plan.model import RunPlan

_EARLIER = re.compile(r"failed-([1-9][0-9]*)")
_ANOTHER = "give another --run-id"
LONGEST = 100
_RUN_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]")
_NO_START = "._-"
_ROOM_FOR_A_NUMBER = 5


class Way(Enum):
    """How a run gets its directory."""

    NEW = "it does not exist yet"
    FREED = "the earlier run never began"
    REPLACED = "the user replaces the earlier run"


def check_results(results: Path) -> None:
    """Refuses a folder of results that cannot be written, before anything is fetched or measured."""
    there = next(each for each in (results.absolute(), *results.absolute().parents) if os.path.lexists(each))
    if there.is_symlink() and not there.exists():
        hint = "make that folder, or give another one with --results"
        raise UsageProblem(f"{there} is a link to {os.readlink(there)}, which is not there", hint)
    if not there.is_dir():
        raise UsageProblem(f"cannot make {results}/: {there} is no folder", "give another one with --results")
    if not os.access(there, os.W_OK | os.X_OK):
        why = "its file system is read-only" if _is_read_only(there) else "permission denied"
        raise UsageProblem(f"cannot make anything in {there}: {why}", "give another one with --results")


def _is_read_only(folder: Path) -> bool:
    return hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def way_to(path: Path, *, overwrite: bool) -> Way:
    """How a run could get that directory; raises UsageProblem if it cannot. Changes nothing."""
    with _held(path, alone=False) as lock:
        return _way(path, overwrite=overwrite, is_held=lock.is_there)


@contextmanager
def run_place(results: Path, plan: RunPlan, *, overwrite: bool, say: Callable[[str], None]) -> Iterator[TakenRun]:
    """Makes the run directory and writes the plan; no other run can take it while this is entered.

    Repeats the checks of `way_to` under the lock, since the directory may have changed.
    """
    from testbed.plan.files import write_plan

    path = results / plan.run_id
    with _held(path, alone=True) as lock:
        way = _way(path, overwrite=overwrite, is_held=lock.is_there)
        if way is Way.NEW:
            run = create_run(results, plan.run_id, lock.take)
        else:
            run = RunDirectory(path)
            try:
                _make_room(run, way, say)
                run.nodes.mkdir()
            except OSError as problem:
                raise UsageProblem(
                    f"cannot make room in {path}: {problem.strerror or problem}", f"{_ANOTHER}, or remove it"
                ) from None
        write_plan(run, plan)
        yield TakenRun(path, lock.descriptors)


def _way(path: Path, *, overwrite: bool, is_held: bool) -> Way:
    if not os.path.lexists(path):
        return Way.NEW
    run = RunDirectory(path)
    taken = f"{path} exists already"
    if path.is_symlink() or not (is_run(path) or _is_cleared(path)):
        raise UsageProblem(f"{taken}, and is no run directory" if overwrite else taken, f"{_ANOTHER}, or remove it")
    _refuse_what_is_there(run, taken)
    if not is_held and last_word(run.events)[1] is None:
        raise UsageProblem(f"{taken}, and it is unknown here whether that run goes on", f"{_ANOTHER}, or remove it")
    if foreign := _foreign(path.iterdir()):
        if overwrite:
            raise _not_the_run_s(run, foreign)
    elif ended_before_start(run):
        return Way.FREED
    if not overwrite:
        raise UsageProblem(taken, f"{_ANOTHER}, replace that run with --overwrite, or remove it")
    if not run.plan.is_file():
        raise UsageProblem(f"{taken}, and has no plan.json: it may be something else", f"{_ANOTHER}, or remove it")
    return Way.REPLACED


def _is_own(name: str) -> bool:
    return name in OWN or _EARLIER.fullmatch(name) is not None or (name.startswith(".") and name.endswith(".tmp"))


def _is_cleared(path: Path) -> bool:
    """Whether the directory holds nothing but earlier failed starts, as after a killed command."""
    try:
        return path.is_dir() and all(_EARLIER.fullmatch(each.name) for each in path.iterdir())
    except PermissionError:
        return False


def _foreign(there: Iterable[Path]) -> list[str]:
    return sorted(each.name for each in there if not _is_own(each.name))


def _not_the_run_s(run: RunDirectory, foreign: list[str]) -> UsageProblem:
    named = ", ".join(foreign[:3]) + (" …" if foreign[3:] else "")
    return UsageProblem(f"{run.path} exists already, and {named} in it is not the run's", "move it elsewhere first")


def _refuse_what_is_there(run: RunDirectory, taken: str) -> None:
    """Raises UsageProblem if processes, sockets or containers of the earlier run exist."""
    match owner_of(run).remains(run):
        case Remains.GOES_ON:
            raise UsageProblem(f"{taken}, and that run goes on", f"{_ANOTHER}; `testbed destroy {run.path}` ends it")
        case Remains.LEFT:
            raise UsageProblem(
                f"{taken}, and something of that run is left",
                f"{_ANOTHER}; `testbed status {run.path}` tells whether it goes on; `testbed destroy {run.path}` "
                "removes what is left",
            )
        case Remains.COPY:
            raise UsageProblem(f"{taken}, with a record of another run's processes", f"{_ANOTHER}, or remove it")
        case Remains.NOTHING:
            pass


# -- locking -----------------------------------------------------------------------------------------------------------


class _DirectoryLock:
    """A lock on a run directory, or none yet.

    The command that leads a run locks its directory exclusively. The kernel releases the lock when the process ends, so
    no command on this machine leads the run of an unlocked directory. Detached runs have a record.
    """

    def __init__(self, *, alone: bool) -> None:
        self._alone = alone
        self._descriptor: int | None = None

    @property
    def is_there(self) -> bool:
        """Whether the lock is held. Always False without such locks: other systems than Linux, some network disks."""
        return self._descriptor is not None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors that another process must inherit to keep the lock after this one ends."""
        return () if self._descriptor is None else (self._descriptor,)

    def take(self, folder: Path) -> None:
        try:
            import fcntl

            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (ImportError, AttributeError, OSError):
            return
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if self._alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            hint = f"{_ANOTHER}; `testbed destroy {folder}`, or Ctrl-C where it was started, ends it"
            raise UsageProblem(f"{folder} exists already, and that run goes on", hint) from None
        except OSError:
            os.close(descriptor)
        else:
            self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


@contextmanager
def _held(path: Path, *, alone: bool) -> Iterator[_DirectoryLock]:
    """Locks the directory while this is entered, if it exists; a new one can be locked later."""
    lock = _DirectoryLock(alone=alone)
    try:
        if path.is_dir():
            lock.take(path)
        yield lock
    finally:
        lock.release()


# -- making room -------------------------------------------------------------------------------------------------------


def _make_room(run: RunDirectory, way: Way, say: Callable[[str], None]) -> None:
    """Clears the directory without moving or removing it: another command could take it without the lock.

    The plan is removed last, so a killed command can be repeated. Foreign files that appeared since the check are kept.
    """
    there = sorted(run.path.iterdir(), key=lambda each: each == run.plan)
    if way is Way.REPLACED:
        if foreign := _foreign(there):
            raise _not_the_run_s(run, foreign)
        say(f"replacing the run in {run.path}")
        for each in there:
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
        return
    if (left := destroy(run)).lasting:  # sockets of a killed run, and processes that may still be ending
        raise UsageProblem(
            f"{', '.join(left.lasting)} of {run.path} cannot be ended", f"{_ANOTHER}; is it another user's?"
        )
    numbers = [int(found[1]) for each in there if (found := _EARLIER.fullmatch(each.name))]
    if len(numbers) == len(there):
        return
    aside = run.path / f"failed-{max(numbers, default=0) + 1}"
    aside.mkdir()
    for each in there:
        if not _EARLIER.fullmatch(each.name):
            each.rename(aside / each.name)
    say(f"{run.path.name} never began the last time; what it left is in {aside}")


# -- names ------------------------------------------------------------------------------------------------------------


def checked_run_name(given: str) -> str:
    """The name itself; raises UsageProblem if it is not a portable folder name."""
    if not _RUN_NAME.fullmatch(given):
        raise UsageProblem(f"`{given}` cannot be a run's name", f"use letters, digits and . _ -, at most {LONGEST}")
    return given


def made_run_name(topology: str, algorithm: str, ending: str = "") -> str:
    """A valid name with room for a number at its end. Long names are cut in the middle, before the ending."""
    words = _FOREIGN.sub("-", f"{topology}-{algorithm.rpartition(':')[2]}").lstrip(_NO_START)
    end = f"-{ending}" if ending else ""
    return (words[: LONGEST - _ROOM_FOR_A_NUMBER - len(end)] or "run") + end
