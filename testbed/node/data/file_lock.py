"""A lock on an open file, held until it is closed, however the process ends.

Takes a descriptor, touches the lock on it. Unix locks the file, Windows its first byte.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import errno
    import msvcrt

    _HELD = (errno.EACCES, errno.EDEADLK)
    """Errors for a lock that another process holds: immediately, and after waiting."""

    def try_lock(descriptor: int) -> bool:
        """Takes the lock if it is free; whether it did."""
        return _locked(descriptor, msvcrt.LK_NBLCK)

    def wait_for_lock(descriptor: int) -> None:
        """Waits until it has the lock."""
        while not _locked(descriptor, msvcrt.LK_LOCK):  # it gives up after ten seconds
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
        """Takes the lock if it is free; whether it did."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait_for_lock(descriptor: int) -> None:
        """Waits until it has the lock."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)
