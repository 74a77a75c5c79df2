"""The end mark: a learner's exit code, kept for the next start of its container.

Docker restarts every failed container. One with an end mark ends again at once, unless control wants the node back.
Takes a node's own folder of sockets, gives an exit code; touches one small file there. The learner can write that file,
too, but only end its own container with it. Light: the first process of a container imports it.
"""

from __future__ import annotations

import os
from contextlib import suppress

TYPE_CHECKING = False  # `typing` takes longer to load than all else in here
if TYPE_CHECKING:
    from pathlib import Path

ENDED = "ended"
_MOST = 255
_LONGEST = 16


def mark_in(folder: Path) -> Path:
    return folder / ENDED


def leave_mark(folder: Path, code: int) -> None:
    """Records a failure; the container ends with the same code at later starts."""
    if code:
        with suppress(OSError):  # the run is over, and has removed the folder
            _write(mark_in(folder), str(code).encode())


def read_mark(folder: str | os.PathLike[str]) -> int | None:
    """The recorded exit code; None if the node is to live."""
    try:
        code = int(_read(os.path.join(folder, ENDED)))
    except (OSError, ValueError):
        return None
    return code if 0 < code <= _MOST else None


def remove_mark(folder: Path) -> None:
    """Lets the node live at the next start."""
    with suppress(OSError):
        mark_in(folder).unlink(missing_ok=True)


# O_NONBLOCK and O_NOFOLLOW: a learner may have replaced the file by a pipe or a link.
def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.open(path, flags, 0o600)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(file, _LONGEST)
    finally:
        os.close(file)
