"""Programs of others, run in the network of a node: ping and iperf3, where they are installed.

Takes the process id of a node and words, gives what the program printed; starts those programs, as `testbed exec` does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from testbed.engines.kernel import be_quick
from testbed.engines.parent import die_with_parent
from testbed.errors import TestbedError
from testbed.runtimes.local.enter import enter_network

_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}


class ToolFailed(TestbedError):
    """A program ended with an error; says what it said."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Which of them are there: their paths."""

    ping: str | None = None
    iperf3: str | None = None


NO_TOOLS = Tools()


def installed() -> Tools:
    return Tools(shutil.which("ping"), shutil.which("iperf3"))


@contextmanager
def started(pid: int, words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A program in the network of that process; it is gone afterwards, and ends with this process too."""

    parent = os.getpid()

    def enter() -> None:
        die_with_parent(parent)
        be_quick()
        enter_network(pid)

    process = subprocess.Popen(  # noqa: S603 - a program that was looked for by its name, and words of ours
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_ENVIRONMENT,
        text=True,
        start_new_session=True,
        preexec_fn=enter,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str], until_s: float, good: set[int]) -> str:
    """What it printed, once it has ended; raises ToolFailed when it ended otherwise, or not in time."""
    name = os.path.basename(str(process.args[0] if isinstance(process.args, list) else process.args))
    try:
        output, errors = process.communicate(timeout=max(0.1, until_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{name} did not end in time") from None
    if process.returncode not in good:
        raise ToolFailed(f"{name}: {(errors or output).strip()[-300:]}")
    return output
