"""Available memory of this machine, and the memory of a process. Takes names, gives bytes; reads /proc."""

from __future__ import annotations

from pathlib import Path


def available_bytes() -> int:
    """Memory available without swapping, within the container's limit. Raises OSError without /proc."""
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
    """A value of a kernel file with lines such as `VmData: 12 kB`; 0 if it has no line of that name."""
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return 0
