"""How much memory this machine has left. Takes nothing, gives bytes; reads what the kernel tells."""

from __future__ import annotations

from pathlib import Path


def available_bytes() -> int:
    """Memory that can be had without swapping; at most what a container is allowed. Raises OSError without /proc."""
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
