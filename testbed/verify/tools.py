"""Runs installed programs, ping and iperf3, in the network of a node.

Takes a node's process id and a command, gives what the program printed; starts it as `testbed exec` does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.engines.kernel import be_quick
from testbed.errors import TestbedError
from testbed.parent import die_with_parent
from testbed.runtimes.enter import enter_network

_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}
_LONGEST = 300
"""Last characters of a failed program's output that are kept."""
_LISTENING, _LOOK_S = "0A", 0.02
"""As in /proc/net/tcp."""


class ToolFailed(TestbedError):
    """A program failed; the message quotes its output. What it was to measure stays unmeasured."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Paths of the programs that are installed."""

    ping: str | None = None
    iperf3: str | None = None


NO_TOOLS = Tools()


def installed() -> Tools:
    return Tools(shutil.which("ping"), shutil.which("iperf3"))


@contextmanager
def started(pid: int, words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A program in the network of process `pid`; it is killed afterwards, and ends with this process too.

    Raises ToolFailed where it cannot even be started.
    """

    parent = os.getpid()

    def enter() -> None:
        die_with_parent(parent)
        be_quick()
        enter_network(pid)

    try:
        process = subprocess.Popen(  # noqa: S603 - a program that was looked for by its name, and words of ours
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_ENVIRONMENT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=enter,
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise ToolFailed(f"{os.path.basename(words[0])} cannot be started: {problem}") from None
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str], until_s: float, is_good: Callable[[int, str], bool]) -> str:
    """The output of a program once it has ended; raises ToolFailed if it is late or its status and output say so."""
    try:
        output, errors = process.communicate(timeout=max(0.1, until_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{_name(process)} did not end in time") from None
    if not is_good(process.returncode, output):
        raise ToolFailed(_failed(process, output, errors))
    return output


def wait_for_listener(process: subprocess.Popen[str], port: int, until_s: float) -> None:
    """Waits until a server in the network of that program accepts connections; raises ToolFailed if it ends first."""
    while not _listens(process.pid, port):
        if process.poll() is not None:
            raise ToolFailed(_failed(process, *process.communicate()))
        if time.monotonic() >= until_s:
            raise ToolFailed(f"{_name(process)} takes no connections")
        time.sleep(_LOOK_S)


def _listens(pid: int, port: int) -> bool:
    for table in ("tcp", "tcp6"):
        with suppress(OSError):  # it may be gone, or a kernel without IPv6
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False


def _name(process: subprocess.Popen[str]) -> str:
    return os.path.basename(str(process.args[0] if isinstance(process.args, list) else process.args))


def _failed(process: subprocess.Popen[str], output: str, errors: str) -> str:
    words = " ".join((errors.strip() or output).split())[-_LONGEST:]
    return f"{_name(process)}: {words or f'exit status {process.returncode}'}"
