"""How many of the cores that a run may use are left free by whatever else this machine does.

Takes how long to look, gives a number of cores; reads what the kernel has counted.
"""

from __future__ import annotations

import time
from pathlib import Path

from testbed.cores import allowed_cores, usable_cores

_COUNTED = Path("/proc/stat")
_LOOK_S = 0.3
_LEAST = 1.0
"""A run gets about so much beside whatever else, or it is hopeless anyway: its health will tell."""
_IDLE, _WAITING = 3, 4
"""Places of the times in which a core did nothing, among all that the kernel counts of it."""


def free_cores(look_s: float = _LOOK_S) -> float:
    """On average while it looks, which must be before the run uses any; all of them where nobody counts."""
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
    """By core that this process may run on: how long it did what, in ticks."""
    mine = allowed_cores()
    found = {}
    for line in _COUNTED.read_text().splitlines():
        name, *times = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in mine:
            found[int(name[3:])] = [int(each) for each in times[:8]]  # guests are in the times of users, too
    return found
