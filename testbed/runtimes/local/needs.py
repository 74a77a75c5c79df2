"""What a local run needs of a machine, and what this one has.

Takes a plan, gives figures; reads what the kernel says.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.plan.model import RunPlan

_BASE_BYTES = 500_000_000
"""The zygote, the fabric and control."""
_NODE_BYTES = 26_000_000
"""Private memory of a node besides its models: measured, ZeroMQ and the interpreter's own."""
_VECTORS = 8
"""Copies of a model that a node has at a time, those on their way included."""
_NODE_DESCRIPTORS = 2
"""In the fabric and in control."""
_SPARE_DESCRIPTORS = 100


@dataclass(frozen=True)
class Need:
    """One kind of thing; the words have their units."""

    what: str
    needed: str
    there: str
    is_short: bool


def needs_of(plan: RunPlan) -> Iterator[Need]:
    nodes = len(plan.nodes)
    neighbours = max(1, plan.overlay.degree or 1)
    node_bytes = _NODE_BYTES + 4 * (plan.parameters or 0) * (_VECTORS + neighbours)
    needed_bytes = _BASE_BYTES + nodes * node_bytes
    there_bytes = available_bytes()
    yield Need("memory", in_gib(needed_bytes), in_gib(there_bytes), needed_bytes > there_bytes)
    descriptors = nodes * _NODE_DESCRIPTORS + _SPARE_DESCRIPTORS
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    yield Need("open files", str(descriptors), str(most), descriptors > most != resource.RLIM_INFINITY)
    processes = nodes * 4 + 100
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if most != resource.RLIM_INFINITY and os.getuid():
        yield Need("processes and threads", str(processes), str(most), processes > most)


def in_gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"


def available_bytes() -> int:
    """Memory that can be had without swapping; at most what a container is allowed."""
    found = [_meminfo_bytes("MemAvailable")]
    cgroup = Path("/sys/fs/cgroup")
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        if limit != "max":
            found.append(int(limit) - int((cgroup / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no such limit
    return max(0, min(found))


def _meminfo_bytes(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return 0
