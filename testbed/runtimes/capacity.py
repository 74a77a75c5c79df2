"""What this machine has for a run: the traffic that the fabric can carry, and the cores that other programs leave free.

Takes the length of a measurement, gives figures; reads the kernel's counters.
"""

from __future__ import annotations

import time
from pathlib import Path

from testbed.cores import allowed_cores, usable_cores

CARRIED_BYTES_S = 35e6
"""Bytes a second of real time that the fabric carries, with one core for itself and one for the nodes' kernels, on the
machine of docs/performance.md. With more traffic, frames wait in the nodes' devices. A frame costs 50 to 65 µs, and
holds 1.6 kB on average, acknowledgements included."""
_CORES = 2
"""Cores that this keeps busy: the fabric is one process, and the nodes' kernels need about as much time."""
BYTE_S = _CORES / CARRIED_BYTES_S
"""Processor time of a byte that a node sends, in seconds."""
_KERNEL_COUNTERS = Path("/proc/stat")
_MEASURE_S = 0.3
_LEAST_FREE = 1.0
"""Lower bound of `free_cores`. With less than one core a run is hopeless, and its health will show that."""
_IDLE, _WAITING = 3, 4
"""Indices of the idle times among the kernel's counters of a core."""


def carried_bytes_s() -> float:
    """Traffic of all nodes together that this machine carries."""
    return min(usable_cores(), _CORES) / BYTE_S


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
