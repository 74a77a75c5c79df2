"""How many of the usable cores other programs leave free.

Takes the length of the measurement, gives a number of cores; reads the kernel's counters.
"""

from __future__ import annotations

import time
from pathlib import Path

from testbed.cores import allowed_cores, usable_cores

_COUNTED = Path("/proc/stat")
_LOOK_S = 0.3
_LEAST = 1.0
"""Lower bound of the result. With less than one core a run is hopeless, and its health will show that."""
_IDLE, _WAITING = 3, 4
"""Indices of the idle times among the kernel's counters of a core."""


def free_cores(look_s: float = _LOOK_S) -> float:
    """The average over `look_s`, to be measured before the run starts; all usable cores if there are no counters."""
    before = _counted()
    time.sleep(look_s)
    passed = [
        [now - then for now, then in zip(times, before[core], strict=True)]
        for core, times in _counted().items()
        if core in before
    ]
    in_all = sum(map(sum, passed))
    idle = sum(times[_IDLE] + times[_WAITING] for times in passed)
    share = idle / in_all if in_all > 0 else 1.0
    return max(_LEAST, usable_cores() * share)


def _counted() -> dict[int, list[int]]:
    """The counters of each core that this process may run on, in ticks."""
    mine = allowed_cores()
    found = {}
    for line in _COUNTED.read_text().splitlines():
        name, *times = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in mine:
            found[int(name[3:])] = [int(each) for each in times[:8]]  # guests are in the times of users, too
    return found
