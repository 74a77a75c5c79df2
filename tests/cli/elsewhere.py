"""`testbed` where Linux is not: this interpreter, without what only Linux, or only Unix, has.

Takes a JSON object on standard input: systems, each with a folder and a list of command lines; writes a JSON list of
what came of them into each folder. Third-party packages are loaded before: they have code of their own for other
systems, which cannot be had here. What is taken away then is what `testbed` itself might use.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from functools import partial
from types import ModuleType

THIRD_PARTY = (
    *("click.testing", "docker", "jinja2", "matplotlib.figure", "matplotlib.backends.backend_agg", "msgspec.json"),
    *("networkx", "numpy.random", "PIL.Image", "pydantic", "pytest", "rich.live", "rich.progress", "rich.table"),
    *("scipy.sparse.csgraph", "scipy.special", "sklearn.datasets", "torch.nn.functional", "torch.utils", "yaml"),
)
STANDARD = (
    *("asyncio", "ctypes.util", "getpass", "multiprocessing", "platform", "shutil", "ssl", "subprocess", "tempfile"),
    *("urllib.request", "zipfile", "tarfile", "webbrowser", "xml.parsers.expat"),
)
NOT_ON_WINDOWS = ("curses", "fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
LINUX_ONLY: dict[ModuleType, tuple[str, ...]] = {
    os: (
        *("sched_", "SCHED_", "pidfd_open", "eventfd", "EFD_", "memfd_create", "MFD_", "O_PATH", "O_TMPFILE", "setns"),
        *("unshare", "CLONE_", "pipe2", "splice", "SPLICE_", "copy_file_range", "getrandom", "GRND_", "posix_fadvise"),
        *("posix_fallocate", "getxattr", "setxattr", "listxattr", "removexattr", "getresuid", "setresuid"),
    ),
    select: ("epoll", "EPOLL"),
    signal: ("SIGRT", "SIGPWR", "SIGSTKFLT", "SIGPOLL", "sigtimedwait", "sigwaitinfo"),
    socket: ("SOCK_NONBLOCK", "SOCK_CLOEXEC", "AF_NETLINK", "AF_PACKET", "SO_PEERCRED", "TCP_USER_TIMEOUT"),
    time: ("CLOCK_BOOTTIME", "CLOCK_TAI"),
}
"""What begins so is taken away; macOS has the rest."""
UNIX_ONLY: dict[ModuleType, tuple[str, ...]] = {
    os: (
        *("fork", "wait3", "wait4", "waitid", "WNOHANG", "WIF", "WEXIT", "WSTOP", "WTERM", "get_blocking"),
        *("set_blocking", "getuid", "geteuid", "getgid", "getegid", "getgroups", "setuid", "setgid", "seteuid"),
        *("setegid", "setgroups", "getpgid", "getpgrp", "setpgid", "setsid", "getsid", "killpg", "chown", "lchown"),
        *("fchown", "fchmod", "fchdir", "chroot", "mkfifo", "mknod", "openpty", "statvfs", "fstatvfs", "sysconf"),
        *("confstr", "getloadavg", "uname", "nice", "getpriority", "setpriority", "pread", "pwrite", "readv", "writev"),
        *("sendfile", "lockf", "sync", "posix_spawn", "register_at_fork", "ttyname", "ctermid", "O_CLOEXEC"),
        *("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_NOCTTY", "O_SYNC", "O_DSYNC"),
    ),
    select: ("poll", "POLL", "PIPE_BUF"),
    signal: (
        *("SIGKILL", "SIGHUP", "SIGUSR", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTT", "SIGCHLD", "SIGPIPE", "SIGALRM"),
        *("SIGQUIT", "SIGWINCH", "SIGURG", "SIGIO", "SIGPROF", "SIGVTALRM", "SIGXCPU", "SIGXFSZ", "SIG_BLOCK"),
        *(
            "SIG_SETMASK",
            "SIG_UNBLOCK",
            "pthread_",
            "setitimer",
            "getitimer",
            "alarm",
            "pause",
            "sigwait",
            "sigpending",
        ),
    ),
    socket: ("AF_UNIX", "send_fds", "recv_fds", "SCM_", "CMSG_"),
    time: ("clock_getres", "clock_gettime", "CLOCK_", "pthread_getcpuclockid"),
}
OUTCOMES = "outcomes.json"
LINUX_PATHS = ("/proc", "/sys", "/dev/net")


def take_away(names: dict[ModuleType, tuple[str, ...]]) -> None:
    for module, beginnings in names.items():
        for name in [each for each in vars(module) if each.startswith(beginnings)]:
            delattr(module, name)


def windows_locks() -> ModuleType:
    """What Windows has in place of `fcntl`."""
    import fcntl

    made = ModuleType("msvcrt")

    def locking(descriptor: int, how: int, _bytes: int) -> None:
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError as held:
            raise PermissionError(errno.EACCES, "Permission denied") from held

    vars(made).update(LK_LOCK=fcntl.LOCK_EX, LK_NBLCK=fcntl.LOCK_EX | fcntl.LOCK_NB, locking=locking)
    return made


def hide_linux_files(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(LINUX_PATHS):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


def load_all_others() -> None:
    for name in (*STANDARD, *THIRD_PARTY):
        importlib.import_module(name)
    assert not [name for name in sys.modules if name.startswith("testbed.")], "something of it is loaded already"


def become(system: str) -> None:
    """This process finds itself on `darwin` or `win32` from now on."""
    sys.addaudithook(hide_linux_files)
    take_away(LINUX_ONLY)
    if system == "win32":
        sys.modules["msvcrt"] = windows_locks()
        socket.socketpair = partial(socket.socketpair, socket.AF_UNIX)  # it is there, made of two of TCP's
        for name in NOT_ON_WINDOWS:
            sys.modules[name] = None  # type: ignore[assignment] # which is how an import is made to fail
        take_away(UNIX_ONLY)
    sys.platform = system


def outcome(words: list[str]) -> dict[str, object]:
    """Of one command; a traceback is in `crash`."""
    from click.testing import CliRunner

    from testbed.cli.main import main

    result = CliRunner().invoke(main, words)
    crash = result.exception if not isinstance(result.exception, SystemExit | None) else None
    told = "".join(traceback.format_exception(crash)) if crash else ""
    return {"code": result.exit_code, "stdout": result.stdout, "stderr": result.stderr, "crash": told}


def run_on(system: str, folder: str, commands: list[list[str]]) -> None:
    """In a process of its own, for there is no way back; OUTCOMES is written at the end."""
    os.chdir(folder)
    child = os.fork()
    if not child:
        leave = os._exit
        try:
            become(system)
            text = json.dumps([outcome(words) for words in commands])
            with open(OUTCOMES, "w") as file:
                file.write(text)
        except BaseException:
            traceback.print_exc()
            leave(1)
        leave(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    load_all_others()
    for system, (folder, commands) in json.load(sys.stdin).items():
        run_on(system, folder, commands)
