"""How many cores this process may use, which may be fewer than the machine has.

Takes nothing, gives a number; asks which of them it may run on, and how much of their time its control groups allow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_MINE = Path("/proc/self/cgroup")


def usable_cores() -> int:
    """At least one. Who may use two and a half keeps two busy: with three all would be halted now and then."""
    allowed = min(_allowances(), default=float("inf"))
    return max(1, int(min(len(allowed_cores()), allowed)))


def allowed_cores() -> frozenset[int]:
    """By the kernel's numbers, those that this process may run on; all where nobody restricts them."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _allowances() -> Iterator[float]:
    """In cores, of each group that this process is in and that has a limit; nothing where nobody can tell."""
    for folder in _groups():
        with suppress(OSError, ValueError):  # this kind of group has no such file, or no limit
            quota, period = (folder / "cpu.max").read_text().split()
            yield int(quota) / int(period)
        with suppress(OSError, ValueError):
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            if int(quota) > 0:
                yield int(quota) / int(period)


def _groups() -> Iterator[Path]:
    """From the innermost to the root; in a container the root is often its own, under whatever name."""
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
