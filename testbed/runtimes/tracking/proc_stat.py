"""Facts about processes from the kernel: state, processor time, children.

Takes process ids, gives values; reads /proc.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

_DEAD = frozenset("ZX")
_STILL = frozenset("TtZX")


class ProcessStat(NamedTuple):
    """The state of one process or thread."""

    state: str
    """The kernel's letter: T is stopped, Z a zombie."""
    busy_s: float
    """Processor time so far."""
    start_ticks: int
    """The start time, in clock ticks since boot."""

    @property
    def is_dead(self) -> bool:
        return self.state in _DEAD


def stat_of(pid: int) -> ProcessStat | None:
    """None if there is no such process."""
    return _read(Path(f"/proc/{pid}/stat"))


def busy_s(pid: int) -> float:
    """Processor time of a process so far; 0 if it has ended."""
    found = stat_of(pid)
    return 0.0 if found is None else found.busy_s


def children_of(pid: int) -> list[int]:
    """Ids of child processes; none on a kernel that does not list them."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:  # the process has ended
        pass
    return found


def descendants_of(pid: int) -> list[int]:
    """Ids of all descendants of a process."""
    found = children_of(pid)
    for each in found:  # the list grows in the loop
        found += children_of(each)
    return found


def stands_still(pid: int) -> bool:
    """Whether all threads are stopped: SIGSTOP reaches them one after the other."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return True  # the process has ended
    found = (_read(thread / "stat") for thread in threads)
    return all(each is None or each.state in _STILL for each in found)


def _read(path: Path) -> ProcessStat | None:
    try:
        fields = path.read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return ProcessStat(fields[0], (int(fields[11]) + int(fields[12])) / _ticks_per_s(), int(fields[19]))


@cache
def _ticks_per_s() -> int:
    return os.sysconf("SC_CLK_TCK")
