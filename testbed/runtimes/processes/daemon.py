"""A run that goes on by itself: `python -m testbed.runtimes.processes.daemon RUN`.

Takes a run directory with its plan; is the run's control, as `deploy` is in the foreground. Says `begun SECONDS` on
standard output at the start barrier and closes it then; what went wrong goes to standard error.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from testbed.control.outcome import Outcome
from testbed.errors import TestbedError
from testbed.plan.files import read_plan
from testbed.rundir import RunDirectory
from testbed.runtimes.processes.local_backend import LocalBackend
from testbed.runtimes.processes.run import RealRun

BEGUN = "begun "


def main(arguments: list[str]) -> int:
    (folder,) = arguments
    directory = RunDirectory(Path(folder))
    try:
        whole = RealRun(read_plan(directory.plan), directory, LocalBackend(), begun=_tell_begun)
        signal.signal(signal.SIGTERM, lambda *_: whole.interrupt())
        signal.signal(signal.SIGINT, lambda *_: whole.interrupt())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        outcome = whole.run()
        _tell(outcome)
        return outcome.exit_code
    except TestbedError as problem:
        sys.stderr.write(f"{problem.message}\n{problem.hint}\n" if problem.hint else f"{problem.message}\n")
        return problem.exit_code


def _tell_begun(seconds: float) -> None:
    try:
        os.write(1, f"{BEGUN}{seconds:.1f}\n".encode())
    except OSError:
        return  # the command that started this has gone
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _tell(outcome: Outcome) -> None:
    """In its log, if there is room."""
    with suppress(OSError):
        for each in outcome.failures:
            sys.stderr.write(f"node {each.node} failed: {each.failure.message}\n")
        for words in (*outcome.broken, *outcome.overloaded, *outcome.remarks):
            sys.stderr.write(f"{words}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
