"""Into the network of a node. Takes its process id, gives nothing; touches the calling process, of one thread.

`python -m testbed.runtimes.real.enter PID COMMAND...` is that command there: a process of its own, since the kernel
lets only one that has a single thread into another user namespace, and libraries for arithmetic start more of them
when they are imported.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.engines.tun import DEVICE
from testbed.errors import PreflightRefused, TestbedError, UsageProblem

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_WHO = "only who started the run can; into the networks of containers only root"


def has_network(pid: int) -> bool:
    """Whether the process is there, and in its network a node's device: it has come, and has not gone."""
    try:
        devices = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except OSError:
        return False
    return any(line.lstrip().startswith(f"{DEVICE}:") for line in devices)


def enter_network(pid: int) -> None:
    """This process, and all that it starts, is in the node's network namespace; raises PreflightRefused if denied."""
    try:
        user, net = (os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("user", "net"))
    except OSError as problem:
        raise PreflightRefused(f"cannot look into the node's process: {problem.strerror}", _WHO) from None
    own = os.stat("/proc/self/ns/user")
    if os.fstat(user).st_ino != own.st_ino:
        _set_namespace(user, _CLONE_NEWUSER)
    _set_namespace(net, _CLONE_NEWNET)
    os.close(user)
    os.close(net)


def _set_namespace(descriptor: int, kind: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, kind):
        words = os.strerror(ctypes.get_errno())
        raise PreflightRefused(f"cannot enter the node's network: {words}", _WHO)


def command_there(pid: int, words: Sequence[str]) -> list[str]:
    """What to run so that a command runs in the node's network."""
    return [sys.executable, "-m", "testbed.runtimes.real.enter", str(pid), *words]


def main(arguments: Sequence[str]) -> int:
    """Does not return where the command can be run."""
    pid, *words = arguments
    try:
        enter_network(int(pid))
        try:
            os.execvp(words[0], words)  # noqa: S606 - exactly what the user has typed, without a shell
        except OSError as problem:
            raise UsageProblem(f"cannot run {words[0]}: {problem.strerror}") from None
    except TestbedError as problem:
        sys.stderr.write(f"Error: {problem.message}\n" + (f"{problem.hint}\n" if problem.hint else ""))
        return problem.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
