"""Into the network of a node. Takes its process id, gives nothing; touches the calling process, of one thread."""

from __future__ import annotations

import ctypes
import os

from testbed.errors import PreflightRefused

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000


def enter_network(pid: int) -> None:
    """This process, and all that it starts, is in the node's network namespace; raises PreflightRefused if denied."""
    try:
        user, net = (os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("user", "net"))
    except OSError as problem:
        raise PreflightRefused(f"cannot look into the node's process: {problem.strerror}") from None
    own = os.stat("/proc/self/ns/user")
    if os.fstat(user).st_ino != own.st_ino:
        _set_namespace(user, _CLONE_NEWUSER)
    _set_namespace(net, _CLONE_NEWNET)
    os.close(user)
    os.close(net)


def _set_namespace(descriptor: int, kind: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, kind):
        words = os.strerror(ctypes.get_errno())
        raise PreflightRefused(f"cannot enter the node's network: {words}", "only who started the run can")
