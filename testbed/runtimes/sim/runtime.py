"""The runtime `sim`: all nodes in one process, in virtual time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from testbed.code import CodeProblem
from testbed.errors import PreflightRefused, RunBroken
from testbed.linux import is_linux
from testbed.runtimes.runtime import Check, Checking, Console, Facts, Given, LiveRun, Remains, RunOption, Runtime

if TYPE_CHECKING:
    from testbed.control.outcome import Outcome
    from testbed.plan.model import RunPlan
    from testbed.rundir import RunDirectory
    from testbed.runtimes.tracking.leftovers import Removed

_MOST_WORKERS = 256


def _workers(text: str) -> int:
    count = int(text) if text.isdecimal() else -1
    if not 0 <= count <= _MOST_WORKERS:
        raise ValueError(f"`{text}` is no number from 0 to {_MOST_WORKERS}")
    return count


WORKERS = RunOption(
    "--workers", "Number of training processes in virtual time.  [default: one per core]", metavar="N", parse=_workers
)


class SimRuntime(Runtime):
    """Has no processes: a run is all in the command that leads it, and nothing of it outlives that."""

    name = "sim"
    facts = Facts("virtual time", engines=("flows",), is_virtual=True)
    options = (WORKERS,)

    def checks(self) -> Iterator[Check]:
        where = "" if is_linux() else f", in one process; not tested on {sys.platform}"
        yield Check("virtual time", True, f"--runtime {self.name} runs everywhere{where}")

    def check(self, plan: RunPlan, how: Checking) -> RunPlan:  # noqa: ARG002
        """Any machine will do: a slow one only takes longer."""
        return plan

    def run(self, plan: RunPlan, directory: RunDirectory, given: Given, console: Console) -> Outcome:
        from testbed.control.health import summary_of, write_summary
        from testbed.journal import CannotWrite

        began_s = time.monotonic()
        outcome = self._run(plan, directory, given, console)
        # It has no health of its own: nothing can come too late.
        summary = summary_of(plan, outcome, {}, ready_s=None, real_s=time.monotonic() - began_s, lateness=None)
        try:
            write_summary(directory.path, summary)
        except CannotWrite as problem:
            return replace(outcome, broken=(*outcome.broken, problem.message))
        return outcome

    def _run(self, plan: RunPlan, directory: RunDirectory, given: Given, console: Console) -> Outcome:
        from testbed.journal import CannotWrite
        from testbed.node.data.problems import Impossible
        from testbed.node.models.problems import ModelProblem
        from testbed.records import Failure
        from testbed.runtimes.failed_start import failed_start
        from testbed.runtimes.sim.prepare import prepared
        from testbed.runtimes.sim.run import SimRun

        workers = given.get(WORKERS.name)
        assert workers is None or isinstance(workers, int)  # noqa: S101 - as `_workers` gives it
        if workers and not is_linux():
            console.say(f"{WORKERS.flag} {workers}: only on Linux are there processes that train; this one does all")
        with ExitStack() as stack:
            try:
                shared = stack.enter_context(prepared(plan, workers=workers))
            except CodeProblem as problem:
                return failed_start(plan, directory, Failure(problem.message, problem.file, problem.line))
            except (ModelProblem, Impossible) as problem:
                return failed_start(plan, directory, Failure(problem.message))
            view = stack.enter_context(console.watching())
            whole = SimRun(plan, directory, shared, tell=view.tell)
            console.end_with(whole.interrupt, is_bounded=True)
            try:
                return whole.run()
            except CannotWrite as problem:
                raise RunBroken(problem.message) from None

    def goes_on(self, run: RunDirectory) -> bool:  # noqa: ARG002
        """Nothing outside of the command that leads a run can tell."""
        return False

    def attach(self, run: RunDirectory) -> LiveRun:
        raise PreflightRefused(
            f"the run {run.path.name} is in virtual time: its nodes are no processes, its network carries no packets",
            "deploy it with --runtime local",
        )

    def remains(self, run: RunDirectory) -> Remains:
        from testbed.runtimes.tracking.process_records import record_of

        return Remains.COPY if record_of(run).exists() else Remains.NOTHING

    def destroy(self, run: RunDirectory) -> Removed:
        from testbed.control.log import last_word
        from testbed.runtimes.tracking.leftovers import destroy

        removed = destroy(run)
        if removed.did_something or last_word(run.events)[1] is not None:
            return removed
        return replace(
            removed,
            remark="a run in virtual time, which has no processes of its own; if it goes on, it ends with the command "
            "that runs it: Ctrl-C there, or kill that process",
        )
