"""What this machine has for a run: the traffic that the fabric can carry, and the cores that other programs leave free.

Takes a plan, or the length of a measurement, gives figures; reads the kernel's counters.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from testbed.cores import allowed_cores, usable_cores
from testbed.engines.fabric.config import AUTO, NATIVE, PYTHON
from testbed.plan.model import RunPlan

_CORES = 2
"""Of the machine of docs/performance.md: the fabric keeps one busy, and the nodes' kernels about as much."""


class Carrier(NamedTuple):
    """What a data plane carries on that machine."""

    peak_bytes_s: float
    """Bytes a second of real time at the peak of a round. With more, frames wait in the nodes' devices."""
    byte_s: float
    """Processor time of a byte that a node sends, on its way and in both nodes' kernels, in seconds."""


CARRIERS = {
    # 16 us a frame, which holds 3.5 kB on average, acknowledgements included. At time scale 2 the peak of wan256 is
    # 307 to 325 MB/s: 0.01 % of the frames wait long, up to 1 % at times when this machine is slower. With 615, 12 %.
    NATIVE: Carrier(350e6, 20e-9),
    # 50 to 65 us a frame, which holds half as much.
    PYTHON: Carrier(35e6, 57e-9),
}


_KERNEL_COUNTERS = Path("/proc/stat")
_MEASURE_S = 0.3
_LEAST_FREE = 1.0
"""Lower bound of `free_cores`. With less than one core a run is hopeless, and its health will show that."""
_IDLE, _WAITING = 3, 4
"""Indices of the idle times among the kernel's counters of a core."""


def carrier(plan: RunPlan) -> Carrier:
    """That of the plan's data plane: the slowest one where it is chosen later, and the fastest where there is none."""
    choice = plan.data_plane
    if choice is None:
        return CARRIERS[NATIVE]
    return CARRIERS[choice.used or (PYTHON if choice.asked == AUTO else choice.asked)]


def carried_bytes_s(plan: RunPlan) -> float:
    """Traffic of all nodes together that this machine carries."""
    return carrier(plan).peak_bytes_s * min(usable_cores(), _CORES) / _CORES


def in_mb_s(bytes_s: float) -> str:
    return f"{bytes_s / 1e6:.3g} MB/s"


def free_cores(measure_s: float = _MEASURE_S) -> float:
    """Average over `measure_s`, to be measured before the run starts; all usable cores if there are no counters."""
    before = _ticks()
    time.sleep(measure_s)
    passed = [
        [now - then for now, then in zip(times, before[core], strict=True)]
        for core, times in _ticks().items()
        if core in before
    ]
    in_all = sum(map(sum, passed))
    idle = sum(times[_IDLE] + times[_WAITING] for times in passed)
    share = idle / in_all if in_all > 0 else 1.0
    return max(_LEAST_FREE, usable_cores() * share)


def _ticks() -> dict[int, list[int]]:
    """The counters of each core that this process may run on, in ticks."""
    mine = allowed_cores()
    found = {}
    for line in _KERNEL_COUNTERS.read_text().splitlines():
        name, *times = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in mine:
            found[int(name[3:])] = [int(each) for each in times[:8]]  # times of guests are in those of users
    return found
