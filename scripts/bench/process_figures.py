"""Processor time and memory of other processes.

Takes process ids, gives seconds and MiB, nothing of processes that have ended; reads /proc and the kernel's clocks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from statistics import fmean

_PROCESS_CLOCK = 2
"""In the kernel's number of another process's clock: its scheduler's, to the nanosecond, of all threads."""
_POLICY = 38
"""Place of a thread's scheduling policy in its `stat`, after the name."""


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    with suppress(OSError):
        return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)
    return 0.0


def computing_s(pid: int) -> float:
    """Processor time of those of its threads that have idle priority, as learners train and evaluate with."""
    found = 0.0
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            policy = int((thread / "stat").read_text().rpartition(")")[2].split()[_POLICY])
            if policy == os.SCHED_IDLE:
                found += int((thread / "schedstat").read_text().split()[0]) * 1e-9
    return found


def pss_mib(pid: int) -> float | None:
    """The process's proportional share of memory."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1]) / 1024
    return None


def mean_pss_mib(pids: Iterable[int]) -> float | None:
    found = [size for pid in pids if (size := pss_mib(pid)) is not None]
    return round(fmean(found), 1) if found else None


def sum_pss_mib(pids: Iterable[int]) -> float | None:
    found = [size for pid in pids if (size := pss_mib(pid)) is not None]
    return round(sum(found), 1) if found else None
