"""Checks whether this machine supports sandboxes for learners. Takes nothing, gives what it denies.

Leaves nothing behind: a child process tries every step and ends.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from tempfile import TemporaryDirectory

from testbed.isolation.launch import enter_node_sandbox, enter_sandbox, lock_view
from testbed.isolation.namespaces import ProcessNamespaces
from testbed.isolation.sandbox import LearnerUser, Sandbox
from testbed.isolation.view import PathKind, VisiblePath

_MOST = 4096
_TRIED = (VisiblePath("/usr"), VisiblePath("/dev/null"), VisiblePath("/tmp", PathKind.EMPTY))  # noqa: S108 - one of its own
_ANYBODY = LearnerUser(65534, 65534)


@dataclass(frozen=True)
class SandboxSupport:
    """How far this machine can keep learners from its files and processes, and from each other."""

    denied: str | None = None
    """Why not at all."""
    still_root: str | None = None
    """Why learners started by root cannot run as another user."""

    @property
    def is_another(self) -> bool:
        """Whether learners started by root run as another user."""
        return os.geteuid() == 0 and self.still_root is None and self.denied is None


@cache
def sandbox_support(*written: str) -> SandboxSupport:
    """Tries a sandbox, once for all runs of this process.

    `written` are folders that learners must write to: not every file system supports that for another user than root.
    """
    with ExitStack() as made:  # nothing is mounted below these
        folders = []
        for each in written:
            with suppress(OSError):  # not writable at all: reported elsewhere
                folders.append(made.enter_context(TemporaryDirectory(prefix="testbed-", dir=each)))
        places = (*_TRIED, *(VisiblePath(each, PathKind.WRITE, is_own=True) for each in folders))
        if os.geteuid() != 0:
            return SandboxSupport(what_is_denied(Sandbox(places, has_network=True)))
        denied = what_is_denied(Sandbox(places, user=_ANYBODY, has_network=True))
        if denied is None:
            return SandboxSupport()
        return SandboxSupport(what_is_denied(Sandbox(places, has_network=True)), still_root=denied)


def what_is_denied(sandbox: Sandbox) -> str | None:
    """What this machine denies of the given sandbox; None if nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.write(writing, _tried(sandbox).encode()[:_MOST])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read(_MOST).decode()
    os.waitpid(child, 0)
    if told == "ok":
        return None
    return told or "the process that tried it ended without an answer"


def _tried(sandbox: Sandbox) -> str:
    try:
        enter_sandbox(sandbox)
        child = os.fork()
        if child == 0:
            _be_first()
        _, status = os.waitpid(child, 0)
        number = os.waitstatus_to_exitcode(status)
        return "ok" if number == 0 else f"a namespace within another: {os.strerror(number)}"
    except OSError as problem:
        return str(problem.strerror or problem)


def _be_first() -> None:
    """Plays the sandbox's first process, the zygote and a node, one inside the other."""
    number = 1
    try:
        lock_view()
        child = os.fork()
        if child:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        with ProcessNamespaces().another():
            node = os.fork()
            if node == 0:
                enter_node_sandbox((VisiblePath("/usr"),))
                os._exit(0)
        _, status = os.waitpid(node, 0)
        number = os.waitstatus_to_exitcode(status)
    except OSError as problem:
        number = problem.errno or 1
    finally:
        os._exit(number)
