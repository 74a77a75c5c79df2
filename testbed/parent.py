"""A process that must not outlive its parent. Takes the parent's id, gives nothing; touches the calling process."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, by: signal.Signals | None = None) -> None:
    """From now on this process gets that signal, SIGKILL unless told, when its parent ends, however that happens.

    The kernel forgets it when a process changes who it is: to be called again then.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL if by is None else by), 0, 0, 0)
    if os.getppid() not in (parent, 0):  # 0: it is outside of this process's own namespace, with which it would end
        os._exit(1)
