"""Starts one of our own modules as a process. Takes its arguments, gives the process; raises OSError."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO


def spawn_module(
    module: str,
    arguments: Sequence[str],
    *,
    stdout: int | IO[bytes],
    stderr: IO[bytes],
    pass_fds: Sequence[int] = (),
    more_environment: Mapping[str, str] | None = None,
    inherited: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Runs a module in a new session, in this process's environment or the given one.

    Ctrl-C in a terminal does not reach it: it starts with SIGINT blocked, and its parent decides when it ends.

    A session of its own also matters for scheduling: Linux divides the processors between sessions (autogroup).
    """
    # Blocked beforehand: until the new process has its own session, signals to this process's group reach it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            env={**(os.environ if inherited is None else inherited), **(more_environment or {})},
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
