"""Finds which processes are a run's. No others are ever signalled.

Takes the mark and the directory of a run, gives answers; reads /proc, and signals processes of the run. A forged record
on disk could name any process, so a process must prove that it is the run's. Either it has the run's mark, a secret, in
its environment, or it holds the run directory open. Both are read while a descriptor holds the process, so that its id
cannot be reused meanwhile.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from testbed.linux import is_linux, open_flags

MARK = "TESTBED_MARK"
"""The environment variable of a run's programs, and of all that they start."""
_MARK_BYTES = 16
_LONGEST_ENVIRONMENT = 4 << 20
_MOST_ROUNDS = 20
"""Limit of repeated searches for processes that fork while they are killed."""
_DEATH_S = 5.0


def new_mark() -> str:
    return secrets.token_hex(_MARK_BYTES)


@contextmanager
def held_open(run: Path) -> Iterator[None]:
    """Holds the run directory open, by which the process that leads a run is known as the run's."""
    descriptor = os.open(run, os.O_RDONLY | open_flags("O_DIRECTORY", "O_CLOEXEC"))
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def held(pid: int) -> Iterator[int | None]:
    """A descriptor that keeps meaning that process, even if its id is reused; None if there is no such process."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_of_run(pid: int, mark: str, run: Path) -> bool:
    """Whether the process has the mark, or holds the run directory open. False if this user may not inspect it."""
    return _carries(pid, mark) or _holds(pid, run)


def owner_of(pid: int) -> int | None:
    """The process' user id; None if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    return None if found is None else int(found[1])


def end_marked(mark: str, owners: Collection[int]) -> int:
    """Kills all processes of these users with the run's mark; gives their number.

    Processes that have cleared their environment are not found; only namespaces end them.
    """
    ended: set[int] = set()
    for _ in range(_MOST_ROUNDS if mark and is_linux() else 0):
        with ExitStack() as stack:
            dying = []
            for pid in _all_processes():
                if pid == os.getpid() or not _carries(pid, mark):
                    continue
                process = stack.enter_context(held(pid))
                if process is None or not _carries(pid, mark) or owner_of(pid) not in owners:
                    continue
                with suppress(OSError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    dying.append(process)
                    ended.add(pid)
            if not dying:
                break
            _wait_for(dying)
    return len(ended)


def _wait_for(processes: Sequence[int]) -> None:
    """Waits until the processes are dead, or the timeout."""
    until_s = time.monotonic() + _DEATH_S
    left = set(processes)
    poll = select.poll()
    for each in left:
        poll.register(each, select.POLLIN)
    while left and (timeout_s := until_s - time.monotonic()) > 0.0:
        for descriptor, _ in poll.poll(timeout_s * 1000):
            poll.unregister(descriptor)
            left.discard(descriptor)


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _carries(pid: int, mark: str) -> bool:
    if not mark:
        return False  # a record of an earlier version has no mark
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read(_LONGEST_ENVIRONMENT)
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")


def _holds(pid: int, run: Path) -> bool:
    try:
        wanted = run.stat()
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for descriptor in descriptors:
        with suppress(OSError):
            found = os.stat(f"/proc/{pid}/fd/{descriptor}")
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    return False
