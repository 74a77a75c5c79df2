"""How a learner's container ended, kept for its next start: Docker starts one that has failed again, wanted or not.

Takes a node's own folder of sockets, gives an exit code; touches one small file there. The learner can reach that
file, too: all that it could do with it is to end its own container. Light: the first process of a container imports it.
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
    """The container ends with that, unless somebody wants it to live once more."""
    if code:
        with suppress(OSError):  # the run is over, and has removed the folder
            _write(mark_in(folder), str(code).encode())


def read_mark(folder: str | os.PathLike[str]) -> int | None:
    """The code of a container that has ended for good; None for one that is to live."""
    try:
        code = int(_read(os.path.join(folder, ENDED)))
    except (OSError, ValueError):
        return None
    return code if 0 < code <= _MOST else None


def remove_mark(folder: Path) -> None:
    """It is to live."""
    with suppress(OSError):
        mark_in(folder).unlink(missing_ok=True)


# Whatever a learner may have put there in place of a file, nobody waits for it.
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
