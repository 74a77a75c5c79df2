"""A lock on an open file, held until it is closed, however the process ends.

Takes a descriptor, touches the lock on it. Unix locks the file, Windows its first byte.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import errno
    import msvcrt

    _HELD = (errno.EACCES, errno.EDEADLK)
    """What it says of a lock that another process has: at once, and when it has waited for a while."""

    def try_lock(descriptor: int) -> bool:
        """Whether it is this process's now."""
        return _locked(descriptor, msvcrt.LK_NBLCK)

    def wait_for_lock(descriptor: int) -> None:
        """Until it is this process's."""
        while not _locked(descriptor, msvcrt.LK_LOCK):  # which gives up after ten seconds
            pass

    def _locked(descriptor: int, how: int) -> bool:
        try:
            msvcrt.locking(descriptor, how, 1)
        except OSError as problem:
            if problem.errno not in _HELD:
                raise
            return False
        return True

else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Whether it is this process's now."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait_for_lock(descriptor: int) -> None:
        """Until it is this process's."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)
