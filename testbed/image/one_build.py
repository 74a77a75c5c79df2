"""One build at a time of one user's: two would make the same images twice, and remove each other's steps.

Takes a way to say that it waits, gives nothing; touches a lock file.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import CouldNotStart


@contextmanager
def one_build(say: Callable[[str], None]) -> Iterator[None]:
    """Alone within, whatever other processes of this user's do."""
    path = Path(tempfile.gettempdir()) / f"testbed-build-{os.getuid()}.lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise CouldNotStart(f"cannot make {path}: {problem.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build of this user's")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
