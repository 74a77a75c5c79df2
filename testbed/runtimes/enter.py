"""A command in the network of a node. Takes a process id; touches the calling process, which has a single thread.

`python -m testbed.runtimes.enter PID HOSTS COMMAND...` is that command there: a process of its own, since the
kernel lets only one that has a single thread into another user namespace, and libraries for arithmetic start more of
them when they are imported.
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
from testbed.errors import PreflightRefused, TestbedError, UsageProblem
from testbed.isolation.mounts import CLONE_NEWNS, attach, cloned, join, keep_mounts_private
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.ownership import MARK
from testbed.runtimes.tracking.process_records import hosts_of_run

HOSTS = "/etc/hosts"
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
    own, whose = os.stat("/proc/self/ns/user"), os.stat(f"/proc/{pid}")
    is_elsewhere = os.fstat(user).st_ino != own.st_ino
    is_root = os.geteuid() == 0
    if is_elsewhere:
        _set_namespace(user, CLONE_NEWUSER)
    _set_namespace(net, CLONE_NEWNET)
    if is_elsewhere and is_root:  # who is nobody there: with what programs for networks want of root
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
    """Whether the process is in this one's network; raises PreflightRefused for another user's process."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino
    except OSError as problem:
        raise PreflightRefused(
            f"cannot look into the node's process: {problem.strerror}", "only who started the run can"
        ) from None


def become_command(pid: int, run: RunDirectory, mark: str, words: Sequence[str]) -> NoReturn:
    """This process becomes a command in the network of a node, which finds the run's nodes by their names.

    It carries the run's mark, so that it ends with the run.
    """
    there = [sys.executable, "-m", "testbed.runtimes.enter", str(pid), str(hosts_of_run(run)), *words]
    os.execve(there[0], there, os.environ | {MARK: mark})  # noqa: S606 - what the user has typed, without a shell


def find_nodes_by_name(hosts: Path) -> None:
    """This process and all that it starts read `hosts` as /etc/hosts, where the kernel allows it."""
    with suppress(OSError):
        unshare(CLONE_NEWNS)
        keep_mounts_private()
        tree = cloned(str(hosts), read_only=True)
        attach(tree, os.path.realpath(HOSTS))
        os.close(tree)


def main(arguments: Sequence[str]) -> int:
    """Does not return where the command can be run."""
    pid, hosts, *words = arguments
    try:
        enter_network(int(pid))
        find_nodes_by_name(Path(hosts))
        try:
            os.execvp(words[0], words)  # noqa: S606 - exactly what the user has typed, without a shell
        except OSError as problem:
            # A folder of PATH that may not be looked into counts as a denial, wherever else the program is missing.
            is_there = "/" in words[0] or shutil.which(words[0]) is not None
            why = problem.strerror if is_there else os.strerror(errno.ENOENT)
            raise UsageProblem(f"cannot run {words[0]}: {why}") from None
    except TestbedError as problem:
        sys.stderr.write(f"Error: {problem.message}\n" + (f"{problem.hint}\n" if problem.hint else ""))
        return problem.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
