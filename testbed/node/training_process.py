"""Forks processes that only compute.

Takes what such a process shall do, gives its id; touches processes. They share their parent's memory until they write,
end with their parent, and leave Ctrl-C to it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from testbed.parent import die_with_parent

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _LARGEST_KEPT_BYTES = 1 << 30, 32 << 20
"""The second is the most that glibc takes."""


@contextmanager
def objects_shared() -> Iterator[None]:
    """Around forking, and as long as the processes live: nobody's garbage collection touches what there is now.

    It would write to, and so copy, every page with an object in it.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def fork_worker(body: Callable[[], None]) -> int:
    """A process that runs the body and ends; nothing of what its parent has open is flushed or closed by it."""
    parent = os.getpid()
    # No Ctrl-C may reach the child before it ignores it: it would unwind its copy of the parent's stack.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with warnings.catch_warnings():
            # Newer Pythons warn of any second thread. The one that numpy's linear algebra keeps is made anew in the
            # child by that library itself; torch has been held to one from the start.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            _be_worker(body, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def _keep_freed_memory() -> None:
    """Every step needs as much as the last: giving it back, and getting it zeroed again, took up to a fifth of it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc's
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)


def _be_worker(body: Callable[[], None], parent: int) -> NoReturn:
    status = 1
    try:
        sys.stdout = sys.stderr  # what a model prints is for people; the parent's output is data
        signal.set_wakeup_fd(-1)  # it would wake the parent's event loop
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may go to the whole group; the parent ends its workers
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        die_with_parent(parent)
        _keep_freed_memory()
        body()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(status)
