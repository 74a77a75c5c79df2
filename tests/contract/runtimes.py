"""How tests have runs begun by each runtime: whole ones, and ones that go on for commands to be tried on.

A further runtime is one more class here, and one more subclass of the contract.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from testbed.control.outcome import Outcome
from testbed.plan.files import to_text
from testbed.plan.model import RunPlan
from testbed.rundir import RunDirectory
from testbed.runtimes.local.engine import FABRIC
from tests.runtimes import local_runs, sim_runs
from tests.runtimes.corner import PATIENCE_S, made_in, until


class Runtime(Protocol):
    """What the contract needs of one."""

    name: str
    refuses: frozenset[str]
    """Commands about runs that it cannot do."""

    def run(self, plan: RunPlan, folder: Path) -> tuple[RunDirectory, Outcome]:
        """A whole run, in a directory in the folder."""

    def going_on(self, plan: RunPlan, folder: Path) -> AbstractContextManager[RunDirectory]:
        """A run called `long`, in `folder/results`, in which every node has done a round; the plan has no end."""


class InVirtualTime:
    name = "sim"
    refuses = frozenset({"exec", "link", "capture", "fault", "logs"})

    def run(self, plan: RunPlan, folder: Path) -> tuple[RunDirectory, Outcome]:
        return sim_runs.run(plan, folder)

    @contextmanager
    def going_on(self, plan: RunPlan, folder: Path) -> Iterator[RunDirectory]:
        (folder / "plan.json").write_text(to_text(plan))
        run = RunDirectory(folder / "results" / "long")
        with _deploy(folder, "--workers", "0") as process:
            try:
                until(lambda: _all_have_done_a_round(run, plan), process)
                yield run
            finally:
                process.kill()


class OnThisMachine:
    name = "local"
    refuses = frozenset[str]()

    def __init__(self, engine: str = FABRIC) -> None:
        self._engine = engine

    def run(self, plan: RunPlan, folder: Path) -> tuple[RunDirectory, Outcome]:
        return local_runs.run(plan, folder, self._engine)

    @contextmanager
    def going_on(self, plan: RunPlan, folder: Path) -> Iterator[RunDirectory]:
        with made_in(folder) as corner:
            (folder / "plan.json").write_text(to_text(local_runs.locally(plan, self._engine)))
            with _deploy(folder, "--detach", environment=corner.environment) as process:
                _, said = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, said
            until(lambda: _all_have_done_a_round(corner.run, plan))
            try:
                yield corner.run
            finally:
                control = corner.process("control")
                if control is not None:
                    os.kill(control.pid, signal.SIGTERM)
                    until(lambda: not corner.processes())


def _deploy(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "testbed", "deploy", "--plan", str(folder / "plan.json")]
    return subprocess.Popen(
        [*words, "--results", str(folder / "results"), "--run-id", "long", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def _all_have_done_a_round(run: RunDirectory, plan: RunPlan) -> bool:
    journals = [run.node(node.name).journal for node in plan.nodes]
    return all(each.exists() and b'"type":"round"' in each.read_bytes() for each in journals)
