"""Control in a container of its own.

Takes the run directory and the sockets, gives the run's exit code; prints the run's progress.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

import msgspec

from testbed.control.outcome import Outcome
from testbed.control.progress import Progress
from testbed.errors import CouldNotStart, RunBroken, TestbedError
from testbed.plan.files import read_plan
from testbed.runtimes.containers.container_backend import ContainerBackend
from testbed.runtimes.containers.container_paths import ContainerPaths, outcome_file
from testbed.runtimes.processes.run import RealRun


def run_control(inside: ContainerPaths) -> int:
    """Leads the run until the last learner has ended."""
    try:
        plan = read_plan(inside.run.plan)
        output = _RunOutput(plan.experiment.stop.rounds)
        run = RealRun(plan, inside.run, ContainerBackend(inside), tell=output.progress, begun=output.begun)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: run.interrupt())
        outcome = run.run()
        output.over(outcome)
        try:
            outcome_file(inside.run).write_bytes(msgspec.json.encode(outcome))
        except OSError as problem:
            with suppress(OSError):  # an incomplete file is useless
                outcome_file(inside.run).unlink(missing_ok=True)
            has_begun = outcome.last is not None
            words = f"cannot write {outcome_file(inside.run)}: {problem.strerror or problem}"
            raise (RunBroken if has_begun else CouldNotStart)(words) from None
        return outcome.exit_code
    except TestbedError as problem:
        _say(f"Error: {problem.message}" + (f"\n{problem.hint}" if problem.hint else ""))
        return problem.exit_code


class _RunOutput:
    """Prints progress and outcome."""

    def __init__(self, rounds: int | None) -> None:
        self._of = "" if rounds is None else f" of {rounds}"
        self._rounds = -1

    def begun(self, seconds: float) -> None:
        _say(f"all nodes began after {seconds:.1f} s")

    def progress(self, look: Progress) -> None:
        """Prints a line for every new round."""
        if look.rounds > self._rounds:
            self._rounds = look.rounds
            accuracy = "" if look.accuracy is None else f", accuracy {look.accuracy:.3f}"
            _say(f"round {look.rounds}{self._of}, {look.t:.1f} s of emulated time{accuracy}")

    def over(self, outcome: Outcome) -> None:
        for each in outcome.failures:
            _say(f"node {each.node} failed: {each.failure.message}")
        for words in (*outcome.broken, *outcome.overloaded, *outcome.remarks):
            _say(words)
        _say(f"{outcome.reason}: {outcome.finished} nodes, {outcome.t:.1f} s of emulated time")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
