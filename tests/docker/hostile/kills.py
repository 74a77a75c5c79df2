"""Makes as many processes as it can, and tells all of them, and the first one of its container, to die."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress

from testbed.node.node import Node

_MOST = 500
_SIGNALS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)


async def act(node: Node, round_: int, told: Mapping[str, object]) -> None:  # noqa: ARG001
    if round_ != 0:
        return
    children: list[int] = []
    try:
        for _ in range(_MOST):
            child = os.fork()
            if child == 0:
                time.sleep(600)
                os._exit(0)
            children.append(child)
    except OSError as problem:
        node.note("bomb", f"{len(children)}: {problem.strerror}")
    else:
        node.note("bomb", f"{len(children)}: NOT DENIED")
    for number in _SIGNALS:
        with suppress(OSError):
            os.kill(1, number)
    for child in children[1:]:  # one stays behind
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
