"""Runs a command in a node's network. Takes a process id; changes the calling process, which must have one thread.

`python -m testbed.runtimes.enter PID HOSTS COMMAND...` runs the command. It is a process of its own: the kernel lets
only single-threaded processes into another user namespace, and numeric libraries start threads at import.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from testbed.engines.kernel import CAP_NET_ADMIN, CAP_NET_RAW, CLONE_NEWNET, CLONE_NEWUSER, pass_on, unshare
from testbed.engines.tun import DEVICE
from testbed.errors import CannotExecute, PreflightRefused, TestbedError
from testbed.isolation.mounts import CLONE_NEWNS, attach, cloned, join, keep_mounts_private
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.ownership import MARK
from testbed.runtimes.tracking.process_records import hosts_of_run

HOSTS = "/etc/hosts"
_WHO = "only the user who started the run can; for networks of containers, only root"


def has_network(pid: int) -> bool:
    """Whether the process exists, and its network has a node's device."""
    try:
        devices = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except OSError:
        return False
    return any(line.lstrip().startswith(f"{DEVICE}:") for line in devices)


def enter_network(pid: int) -> None:
    """Moves this process into the node's network namespace; raises PreflightRefused if denied."""
    try:
        user, net = (os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("user", "net"))
    except OSError as problem:
        raise PreflightRefused(f"cannot look into the node's process: {problem.strerror}", _WHO) from None
    own, whose = os.stat("/proc/self/ns/user"), os.stat(f"/proc/{pid}")
    is_elsewhere = os.fstat(user).st_ino != own.st_ino
    is_root = os.geteuid() == 0
    if is_elsewhere:
        _set_namespace(user, CLONE_NEWUSER)
    _set_namespace(net, CLONE_NEWNET)
    if is_elsewhere and is_root:  # root is not mapped there: becomes the node's user, with network capabilities
        os.setresgid(whose.st_gid, whose.st_gid, whose.st_gid)
        os.setresuid(whose.st_uid, whose.st_uid, whose.st_uid)
        pass_on(CAP_NET_ADMIN, CAP_NET_RAW)
    os.close(user)
    os.close(net)


def _set_namespace(descriptor: int, kind: int) -> None:
    try:
        join(descriptor, kind)
    except OSError as problem:
        words = os.strerror(problem.errno or 0)
        raise PreflightRefused(f"cannot enter the node's network: {words}", _WHO) from None


def shares_network(pid: int) -> bool:
    """Whether the process is in the same network as this one; raises PreflightRefused for another user's process."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino
    except OSError as problem:
        raise PreflightRefused(
            f"cannot look into the node's process: {problem.strerror}", "only the user who started the run can"
        ) from None


def become_command(pid: int, run: RunDirectory, mark: str, words: Sequence[str]) -> NoReturn:
    """Replaces this process by a command in the node's network, where the run's nodes can be looked up by name.

    The command has the run's mark, so it ends with the run.
    """
    there = [sys.executable, "-m", "testbed.runtimes.enter", str(pid), str(hosts_of_run(run)), *words]
    os.execve(there[0], there, os.environ | {MARK: mark})  # noqa: S606 - what the user has typed, without a shell


def find_nodes_by_name(hosts: Path) -> None:
    """Mounts `hosts` as /etc/hosts for this process and its children, if the kernel allows it."""
    with suppress(OSError):
        unshare(CLONE_NEWNS)
        keep_mounts_private()
        tree = cloned(str(hosts), read_only=True)
        attach(tree, os.path.realpath(HOSTS))
        os.close(tree)


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns only after an error."""
    pid, hosts, *words = arguments
    try:
        enter_network(int(pid))
        find_nodes_by_name(Path(hosts))
        try:
            os.execvp(words[0], words)  # noqa: S606 - exactly what the user has typed, without a shell
        except OSError as problem:
            # An unreadable folder in PATH gives EACCES, even if the program does not exist anywhere.
            is_there = "/" in words[0] or shutil.which(words[0]) is not None
            number = problem.errno if is_there else errno.ENOENT
            why = os.strerror(number or 0)
            raise CannotExecute(f"cannot run {words[0]}: {why}", is_there=number != errno.ENOENT) from None
    except TestbedError as problem:
        sys.stderr.write(f"Error: {problem.message}\n" + (f"{problem.hint}\n" if problem.hint else ""))
        return problem.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
