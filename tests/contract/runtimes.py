"""How tests have runs begun by each runtime: whole ones, and ones that go on for commands to be tried on.

A further runtime is one more class here, or in a file beside its tests, and one more subclass of the contract.
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
from testbed.runtimes.processes.engine import FABRIC
from tests.runtimes import local_runs, sim_runs
from tests.runtimes.scratch_run import PATIENCE_S, made_in, until


class Runtime(Protocol):
    """What the contract needs of one."""

    name: str
    refuses: frozenset[str]
    """Commands about runs that it cannot do."""
    has_packets: bool
    """Whether nodes are real processes, each in a network of its own, whose packets the fabric carries."""
    new_life_s: float
    """Emulated seconds that a node which joins may need until it trains, beyond those that it has in virtual time."""
    notices_s: float
    """Real seconds until all know that a node has finished: its process ends, and control tells the others."""

    def knowing(self, code: Path) -> Runtime:
        """One whose nodes find this file."""

    def run(self, plan: RunPlan, folder: Path) -> tuple[RunDirectory, Outcome]:
        """A whole run, in a directory in the folder."""

    def going_on(self, plan: RunPlan, folder: Path) -> AbstractContextManager[RunDirectory]:
        """A run in `folder/results`, in which every node has done a round; the plan has no end."""


class InVirtualTime:
    name = "sim"
    refuses = frozenset({"exec", "link", "capture", "fault"})
    has_packets = False
    new_life_s = 0.0
    notices_s = 0.0

    def knowing(self, code: Path) -> InVirtualTime:  # noqa: ARG002
        return self

    def run(self, plan: RunPlan, folder: Path) -> tuple[RunDirectory, Outcome]:
        return sim_runs.run(plan, folder)

    @contextmanager
    def going_on(self, plan: RunPlan, folder: Path) -> Iterator[RunDirectory]:
        (folder / "plan.json").write_text(to_text(plan))
        run = RunDirectory(folder / "results" / "long")
        with deploying(folder, "long", "--workers", "0") as process:
            try:
                until(lambda: all_have_done_a_round(run, plan), process)
                yield run
            finally:
                process.kill()


class OnThisMachine:
    name = "local"
    refuses = frozenset[str]()
    has_packets = True
    new_life_s = 0.0
    notices_s = 2.0

    def __init__(self, engine: str = FABRIC) -> None:
        self._engine = engine

    def knowing(self, code: Path) -> OnThisMachine:  # noqa: ARG002
        return self

    def run(self, plan: RunPlan, folder: Path) -> tuple[RunDirectory, Outcome]:
        return local_runs.run(plan, folder, self._engine)

    @contextmanager
    def going_on(self, plan: RunPlan, folder: Path) -> Iterator[RunDirectory]:
        with made_in(folder) as scratch:
            (folder / "plan.json").write_text(to_text(local_runs.locally(plan, self._engine)))
            with deploying(folder, "long", "--detach", environment=scratch.environment) as process:
                _, said = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, said
            until(lambda: all_have_done_a_round(scratch.run, plan))
            try:
                yield scratch.run
            finally:
                control = scratch.process("control")
                if control is not None:
                    os.kill(control.pid, signal.SIGTERM)
                    until(lambda: not scratch.processes())


def deploying(
    folder: Path, run_id: str, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """The command, running `plan.json` of the folder."""
    words = [sys.executable, "-m", "testbed", "deploy", "--plan", str(folder / "plan.json")]
    return subprocess.Popen(
        [*words, "--results", str(folder / "results"), "--run-id", run_id, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def all_have_done_a_round(run: RunDirectory, plan: RunPlan) -> bool:
    journals = [run.node(node.name).journal for node in plan.nodes]
    return all(each.exists() and b'"type":"round"' in each.read_bytes() for each in journals)
