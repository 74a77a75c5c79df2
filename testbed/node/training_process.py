"""Forks worker processes that only compute.

Takes a worker's work, gives its process id; touches processes. Workers share their parent's memory copy-on-write, end
with their parent, and leave Ctrl-C to it.
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

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_KEPT_BYTES, _LARGEST_KEPT_BYTES = 1 << 30, 32 << 20
"""The second is the maximum of glibc."""


@contextmanager
def objects_shared() -> Iterator[None]:
    """Entered around forking, for as long as the workers live: garbage collection ignores the objects of before.

    A collection would write to, and so copy, every page with an object.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def fork_worker(body: Callable[[], None]) -> int:
    """Starts a process that runs `body` and ends, without flushing or closing its parent's files."""
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
    """Keeps freed memory for the next step: returning it, and getting it zeroed again, took up to a fifth of a step.

    All threads share it, so that the memory of a training step serves for messages afterwards.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc's
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
        mallopt(_M_ARENA_MAX, 1)


def return_freed_memory() -> None:
    """Gives the kernel what `_keep_freed_memory` keeps. The next steps get it anew, which takes about 2 ms."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc's
        trim(ctypes.c_size_t(0))


def _be_worker(body: Callable[[], None], parent: int) -> NoReturn:
    status = 1
    try:
        sys.stdout = sys.stderr  # models print to stderr; the parent's standard output is data
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
