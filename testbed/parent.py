"""Ends a process with its parent. Takes the parent's id, gives nothing; changes the calling process."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, by: signal.Signals | None = None) -> None:
    """Lets the kernel send this process a signal (SIGKILL by default) when its parent ends, for whatever reason.

    The kernel drops this when a process changes its user: call it again then.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL if by is None else by), 0, 0, 0)
    if os.getppid() not in (parent, 0):  # 0: the parent is outside of this process's PID namespace
        os._exit(1)
