"""Processor time and memory of other processes.

Takes process ids, gives seconds and KiB; reads /proc and the kernel's clocks of processes.
"""

from __future__ import annotations

import time

_PROCESS_CLOCK = 2
"""In the kernel's number of another process's clock: its scheduler's, to the nanosecond, of all threads."""


def cpu_s(pid: int) -> float:
    """Processor time of a process so far; 0 if it has ended."""
    try:
        return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)
    except OSError:
        return 0.0
