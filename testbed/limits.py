"""Limits of one learner: memory, processes, sizes of files.

Takes limits, gives messages for exceeded ones; limits the calling process, which cannot raise them again, and its
children. A request above a limit fails at once, in the code that makes it, so no process has to be killed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from testbed.memory import told_bytes

LOG_BYTES = 64 << 20
"""The most that a node may print."""
PROCESSES = 128
"""Processes and threads of a node together."""
TMP_OPTIONS = "mode=1777,size=64m"
"""Mount options of a node's own /tmp, in memory."""
_LEAST_FILE_BYTES = 1 << 30
_RESERVED_BYTES = 2 << 30
"""Address space that threads and libraries reserve and never use."""
_COUNTED_BY_NAMESPACE = (5, 14)
"""The kernel version from which a user's processes are counted per namespace; before, all of the machine's are
counted."""
_STATUS = Path("/proc/self/status")
_NO_PROCESS = re.compile(r"Resource temporarily unavailable|can't start new thread")
_NO_ROOM = re.compile(r"MemoryError|can't allocate memory|Cannot allocate memory")


@dataclass(frozen=True)
class Limits:
    memory_bytes: int
    """In addition to the memory of the process when the limits begin."""
    file_bytes: int
    """The size of any single file."""


def limits_for(memory_bytes: int, model_bytes: int) -> Limits:
    """Limits for a node; its files include snapshots of the model."""
    return Limits(memory_bytes, max(_LEAST_FILE_BYTES, 8 * model_bytes))


_granted: list[Limits] = []
"""The limits of this process, if any."""


def keep_within(limits: Limits, *, has_own_users: bool) -> None:
    """Limits this process from now on. The number of processes is limited only in a user namespace of its own."""
    import resource  # not there on Windows

    _granted[:] = [limits]
    _at_most(resource.RLIMIT_DATA, told_bytes(_STATUS, "VmData") + limits.memory_bytes)
    _at_most(resource.RLIMIT_AS, told_bytes(_STATUS, "VmSize") + limits.memory_bytes + _RESERVED_BYTES)
    _at_most(resource.RLIMIT_FSIZE, limits.file_bytes)
    if has_own_users and counts_processes_by_namespace():
        _at_most(resource.RLIMIT_NPROC, PROCESSES)


def counts_processes_by_namespace() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(re.sub(r"\D.*", "", minor))) >= _COUNTED_BY_NAMESPACE


def with_limit(message: str) -> str:
    """The message of an exception in a researcher's code, with the limit if memory or a process was denied."""
    if not _granted:
        return message
    if _NO_ROOM.search(message):
        most = in_mib(_granted[0].memory_bytes)
        return f"{message}: a process of a node may take {most} of memory here; `memory` of its service gives it more"
    if _NO_PROCESS.search(message):
        return f"{message}: a node may have {PROCESSES} processes and threads"
    return message


def in_mib(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB"


def _at_most(kind: int, wanted: int) -> None:
    import resource

    _, hard = resource.getrlimit(kind)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (most, most))
