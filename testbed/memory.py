"""How much memory this machine has left, or a process has. Takes what of it, gives bytes; reads what /proc tells."""

from __future__ import annotations

from pathlib import Path


def available_bytes() -> int:
    """Memory that can be had without swapping; at most what a container is allowed. Raises OSError without /proc."""
    found = [told_bytes(Path("/proc/meminfo"), "MemAvailable")]
    cgroup = Path("/sys/fs/cgroup")
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        if limit != "max":
            found.append(int(limit) - int((cgroup / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no such limit
    return max(0, min(found))


def told_bytes(file: Path, name: str) -> int:
    """As one of the kernel's files has it, in lines such as `VmData:  12 kB`; 0 where there is no line of that name."""
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return 0
