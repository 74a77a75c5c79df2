"""A lock on an open file, held until it is closed, however the process ends.

Takes a descriptor, touches the lock on it. Unix locks the file, Windows its first byte.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import msvcrt

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
        except OSError:
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
