"""Runs as commands of their own, each in a scratch folder in which all that it could leave behind is found again.

A scratch run has a folder, which is in the command line of every process of its runs, and a folder of temporary files.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from testbed.cli.main import main
from testbed.control.commands import Look, Seen, ask
from testbed.errors import TestbedError
from testbed.plan.files import to_text
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.leftovers import is_alive
from testbed.runtimes.tracking.process_records import ProcessRecord, RunRecord, commands_socket, read_record
from tests.runtimes.local_runs import locally
from tests.runtimes.sim_runs import plan_of, records, star

PATIENCE_S = 60.0
NODES = tuple(f"node.{rank}" for rank in range(3))
LONG = "where-paths-are-longer-than-those-of-sockets-may-be" * 2
"""In the name of the folder of temporary files, where runs make their sockets."""
ENDLESS = {"rounds": 100_000}


def until(holds: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    """Wait; a process that must not end before then may be named."""
    limit_s = time.monotonic() + PATIENCE_S
    while not holds():
        if process is not None and process.poll() is not None:
            pytest.fail(f"ended with {process.returncode}: {process.stderr.read() if process.stderr else ''}")
        assert time.monotonic() < limit_s, "it takes too long"
        time.sleep(0.01)


class ScratchRun:
    """One run, called `long`, of three nodes."""

    def __init__(self, folder: Path, temporary: Path) -> None:
        self.folder = folder
        self.temporary = temporary
        self.results = folder / "results"
        self.run = RunDirectory(self.results / "long")
        self._there: frozenset[int] = frozenset()

    def write_plan(self, events: str = "", **settings: Any) -> Path:
        """Of a run that trains without end, unless it is told otherwise."""
        chosen = {"stop": ENDLESS, "evaluation": {"every": 1000, "samples": 20}, **settings}
        path = self.folder / "plan.json"
        path.write_text(to_text(locally(plan_of(star(3, events), **chosen))))
        return path

    def words(self, *arguments: str) -> list[str]:
        """A plan that is written needs no preparation, which makes it quick."""
        fixed = ["deploy", "--plan", str(self.folder / "plan.json"), "--results", str(self.results)]
        return [sys.executable, "-m", "testbed", *fixed, "--run-id", "long", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self.temporary)}

    @contextmanager
    def start(self, *arguments: str, before: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
        """As from a terminal: its process group is what Ctrl-C would reach. `before`: words that begin the command."""
        if not (self.folder / "plan.json").exists():
            self.write_plan()
        words = [*before, *self.words(*arguments)]
        with subprocess.Popen(
            words, stderr=subprocess.PIPE, text=True, env=self.environment, start_new_session=True
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def testbed(self, verb: str, *words: str) -> Result:
        return CliRunner().invoke(main, [verb, *words, "--results", str(self.results)])

    # -- how far the run is ----------------------------------------------------------------------------------------

    def record(self) -> RunRecord | None:
        return read_record(self.run)

    def process(self, name: str) -> ProcessRecord | None:
        record = self.record()
        return None if record is None else next((each for each in record.processes if each.name == name), None)

    def phase(self) -> str | None:
        record = self.record()
        if record is None:
            return None
        with suppress(TestbedError):
            seen = ask(commands_socket(Path(record.sockets)), Look())
            assert isinstance(seen, Seen)
            return seen.phase
        return None

    def trains(self) -> bool:
        """Every node has done a round."""
        journals = [self.run.node(name).journal for name in NODES]
        return all(each.exists() and b'"type":"round"' in each.read_bytes() for each in journals)

    def last_words(self) -> dict[str, str]:
        """The reasons for which nodes ended."""
        return {name: getattr(records(self.run, name)[-1], "reason", "nothing") for name in NODES}

    def reach(self, phase: str, process: subprocess.Popen[str] | None = None) -> None:
        """`starting`: the first node is there; `training`; `ending`: all but one, which is stopped, are about to go.

        For `ending` the plan must have an end.
        """
        if phase == "starting":
            until(lambda: self.process("node 0"), process)
            return
        if phase == "training":
            until(self.trains, process)
            return
        journal = self.run.node(NODES[2]).journal
        until(lambda: journal.exists() and journal.stat().st_size, process)  # it has begun, and is far from its end
        last = self.process("node 2")
        assert last is not None
        os.kill(last.pid, signal.SIGSTOP)
        until(lambda: self.phase() == "ending", process)
        assert is_alive(last)

    def go_on(self) -> None:
        """The node that was stopped may end."""
        last = self.process("node 2")
        assert last is not None
        os.kill(last.pid, signal.SIGCONT)

    # -- what is left of it ----------------------------------------------------------------------------------------

    def processes(self) -> list[int]:
        """That live now: nodes too, since they are forked from one whose command line names the run."""
        mark = f"{self.folder}/".encode()
        return [pid for pid in _all_processes() if mark in _command_line(pid)]

    def namespaces(self) -> set[int]:
        """The networks of nodes that live now. The kernel may give their numbers to others' later."""
        self._there = frozenset(_all_processes())
        own = os.stat("/proc/self/ns/net").st_ino
        return {number for pid in self.processes() if (number := _network_of(pid)) not in (None, own)}

    def assert_all_ended(self, namespaces: set[int]) -> None:
        """By themselves: no process, and no network that anybody keeps who was there when they lived."""
        until(lambda: not self.processes())
        # Who is dying has no command line any more when it still has its network.
        until(
            lambda: not [pid for pid in self._there if _network_of(pid) in namespaces or namespaces & set(_held(pid))]
        )

    def assert_nothing_is_left(self, namespaces: set[int]) -> None:
        """But results."""
        self.assert_all_ended(namespaces)
        assert not list(self.temporary.iterdir())
        assert self.record() is None
        parts = [path for path in self.run.path.rglob("*") if path.is_socket() or path.suffix in (".part", ".tmp")]
        assert not parts

    def clear(self) -> None:
        """What a failed test leaves."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        record = self.record()
        processes = [] if record is None else [each for each in record.processes if each.pid != os.getpid()]
        until(lambda: not any(map(is_alive, processes)))


@contextmanager
def made_in(folder: Path) -> Iterator[ScratchRun]:
    """A scratch; nothing of it stays, whatever the test found."""
    with tempfile.TemporaryDirectory(prefix=f"tbt-{LONG}-") as temporary:
        scratch = ScratchRun(folder, Path(temporary))
        try:
            yield scratch
        finally:
            scratch.clear()


def _all_processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _command_line(pid: int) -> bytes:
    """Empty of a process that is gone, or only waits for its parent to see that."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _network_of(pid: int) -> int | None:
    with suppress(OSError):
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    return None


def _held(pid: int) -> Iterator[int]:
    """Networks that a process keeps by an open file."""
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                if target.startswith("net:["):
                    yield int(target[5:-1])
