"""The cores that this process may use; they may be fewer than the machine has.

Takes nothing, gives a number; reads the affinity and the quotas of control groups.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_MINE = Path("/proc/self/cgroup")


def usable_cores() -> int:
    """The number of cores, at least one. A quota of 2.5 counts as two: three busy ones would be halted now and then."""
    allowed = min(_quotas(), default=float("inf"))
    return max(1, int(min(len(allowed_cores()), allowed)))


def allowed_cores() -> frozenset[int]:
    """The kernel's numbers of the cores that this process may run on; all if the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _quotas() -> Iterator[float]:
    """Quotas in cores of the process's control groups that have one; none if they cannot be read."""
    for folder in _groups():
        with suppress(OSError, ValueError):  # this kind of group has no such file, or no limit
            quota, period = (folder / "cpu.max").read_text().split()
            yield int(quota) / int(period)
        with suppress(OSError, ValueError):
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            if int(quota) > 0:
                yield int(quota) / int(period)


def _groups() -> Iterator[Path]:
    """The process's control groups, from the innermost to the root, which in a container is often its own group."""
    try:
        lines = _MINE.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "cpu" not in kinds.split(","):
            continue
        root = _GROUPS / "cpu" if kinds else _GROUPS
        inner = root / path.strip("/")
        yield inner
        if inner != root:
            yield from (each for each in inner.parents if each.is_relative_to(root))
