"""Starts a run that goes on when the command is over.

Takes a run directory with its plan, gives nothing; starts a process that is the run's control.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import click

from testbed.rundir import RunDirectory

_MOST_SAID = 2000
_BEGUN = "begun "


def detached(directory: RunDirectory, say: Callable[[str], None]) -> None:
    """Returns when all nodes have begun; leaves with the run's own exit code when they could not."""
    log = directory.path / "runtime" / "control.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "testbed.runtimes.local.daemon", str(directory.path.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert process.stdout is not None  # noqa: S101 - asked for above
    try:
        with process.stdout as said:
            begun = said.readline().decode()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    if begun.startswith(_BEGUN):
        say(f"all nodes began after {begun.removeprefix(_BEGUN).strip()}s; the run goes on")
        say(f"next: testbed status {directory.path}")
        process.returncode = 0  # it is not waited for: it outlives this command
        return
    status = process.wait()
    words = log.read_text(errors="replace").strip()[-_MOST_SAID:]
    click.echo(f"Error: {words or 'the run ended before it began'}", err=True)
    click.get_current_context().exit(status if status > 0 else 1)
