"""What the kernel says of processes: whether one is there, stands still, how much it has computed.

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
    """Of one process, or one thread."""

    state: str
    """A letter: T is stopped, Z dead but not asked for."""
    busy_s: float
    """Processor time so far."""
    start_ticks: int
    """When it began."""

    @property
    def is_dead(self) -> bool:
        return self.state in _DEAD


def stat_of(pid: int) -> ProcessStat | None:
    """None when there is no such process."""
    return _read(Path(f"/proc/{pid}/stat"))


def busy_s(pid: int) -> float:
    """Processor time of a process so far; 0 when it is gone."""
    found = stat_of(pid)
    return 0.0 if found is None else found.busy_s


def children_of(pid: int) -> list[int]:
    """None where this kernel does not tell."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:  # it is about to end
        pass
    return found


def descendants_of(pid: int) -> list[int]:
    """Whatever the process has started, and what that has."""
    found = children_of(pid)
    for each in found:  # it grows meanwhile
        found += children_of(each)
    return found


def stands_still(pid: int) -> bool:
    """Whether no thread of it does anything: a signal that stops a process reaches them one after the other."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return True  # it is gone
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
