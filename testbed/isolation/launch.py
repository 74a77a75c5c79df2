"""Starts a module inside a run's sandbox, such as the zygote that nodes are forked from.

`python -m testbed.isolation.launch FD PARENT MODULE ARGUMENTS...` runs that module as the first process of a PID
namespace; FD is the descriptor of a `Sandbox`. The command waits for it and ends as it does. Imports little, since only
a single-threaded process can make user namespaces, and numeric libraries start threads when they are imported.
"""

from __future__ import annotations

import os
import resource
import runpy
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from testbed.engines.kernel import CLONE_NEWNET, enter_user_namespace, let_owner_look, unshare
from testbed.isolation.mounts import CLONE_NEWIPC, CLONE_NEWNS, CLONE_NEWPID, mount_processes
from testbed.isolation.namespaces import enter_namespaces_as
from testbed.isolation.sandbox import Sandbox
from testbed.isolation.view import PathKind, VisiblePath, enter_view
from testbed.parent import die_with_parent

DENIED = 74
"""Exit code where this machine denies a step after all."""
_SEEN_BY_ALL = 0o022
_NO_MORE = Path("/proc/sys/user/max_user_namespaces")
"""Forbids further user namespaces within a node's: there a learner would regain rights that it has given up."""
_BY_SIGNAL = 128
"""Plus the number of the signal: exit code where a process cannot end by its child's signal."""


def main(arguments: Sequence[str]) -> int:
    """Runs the module and returns its exit code."""
    descriptor, parent, module, *rest = arguments
    die_with_parent(int(parent))
    try:
        enter_sandbox(Sandbox.in_file(int(descriptor)))
        die_with_parent(int(parent))  # the kernel forgets it when a process changes its user
        child = os.fork()
        if child:
            return _waited_for(child)
        lock_view()
        child = os.fork()
    except OSError as problem:
        sys.stderr.write(f"this machine does not let learners be kept apart: {problem}\n")
        return DENIED
    if child:
        return _waited_for(child)
    die_with_parent(0)
    sys.argv[1:] = rest
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


def enter_sandbox(sandbox: Sandbox) -> None:
    """Puts the calling process into the sandbox; its next child is the first of a new PID namespace."""
    outside = (*sandbox.places, VisiblePath("/proc", PathKind.WRITE))
    umask = os.umask(_SEEN_BY_ALL)  # or that user could not traverse the folders of its own view
    if sandbox.user is None:
        enter_user_namespace(CLONE_NEWNS | CLONE_NEWIPC)
        enter_view(outside)
    else:
        user = sandbox.user.uid, sandbox.user.gid
        unshare(CLONE_NEWNS)  # as root: that user may not even traverse the folders that lead to its paths
        enter_view(outside, user)
        enter_namespaces_as(*user, CLONE_NEWNS | CLONE_NEWIPC)
    os.umask(umask)
    unshare(CLONE_NEWPID | (0 if sandbox.has_network else CLONE_NEWNET))
    let_owner_look()


def lock_view() -> None:
    """Called in that child: keeps its own children from unmounting the view, though they may mount more in it.

    The user namespace that made a view could unmount it. So nodes come from a nested user namespace, which inherits
    these mounts locked; the /proc there shows the processes of both.
    """
    die_with_parent(0)
    mount_processes("/proc")
    enter_user_namespace(CLONE_NEWNS)
    unshare(CLONE_NEWPID)


def enter_node_sandbox(places: Iterable[VisiblePath]) -> None:
    """Puts a node, the first process of its PID namespace, into its own view, without rights over that view."""
    unshare(CLONE_NEWNS)
    enter_view((*places, VisiblePath("/proc", PathKind.PROCESSES)))
    enter_user_namespace(CLONE_NEWIPC)
    _NO_MORE.write_text("0")


def _waited_for(child: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    number = -code if code < 0 else code - _BY_SIGNAL
    if number <= 0:
        return code
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # this process has not crashed itself
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)  # has no effect on the first process of a namespace
    return _BY_SIGNAL + number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
