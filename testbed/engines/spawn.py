"""Starts a program of ours in a session of its own. Takes its words, gives the process; raises OSError."""

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
    """It inherits this process's environment, unless told what else.

    Ctrl-C in a terminal does not reach it: it begins with SIGINT blocked, and its parent decides when it is over.

    Linux also shares the processor between sessions first (autogroup).
    """
    # It is blocked before: until the new process has its session, it would be hit with the rest of this one's group.
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
