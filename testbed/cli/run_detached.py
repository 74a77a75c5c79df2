"""Starts a run that goes on when the command is over.

Takes a run directory with its plan, gives nothing; starts a process that is the run's control.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import click

from testbed.cli.output import Format, print_csv, print_json
from testbed.cli.run_place import TakenRun
from testbed.engines.spawn import spawn_module
from testbed.errors import CouldNotStart, ExitCode
from testbed.rundir import RunDirectory

_MOST_SAID = 2000
_BEGUN = "begun "


COLUMNS = ("run_id", "folder")


def detached(directory: TakenRun, say: Callable[[str], None], output_format: Format) -> None:
    """Returns when all nodes have begun, having said which run that is; leaves with its exit code if they could not."""
    log = directory.path / "runtime" / "control.log"
    try:
        process = _start(directory, log)
    except OSError as problem:
        raise CouldNotStart(f"cannot start the run's own process: {problem.strerror or problem}") from problem
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
        tell_of_run(directory, output_format)
        return
    status = process.wait()
    words = log.read_text(errors="replace").strip()[-_MOST_SAID:]
    if status < 0:  # it could not say so itself
        words = f"the run's control was killed by {signal.Signals(-status).name}" + (f"\n{words}" if words else "")
    click.echo(f"Error: {words or 'the run ended before it began'}", err=True)
    click.get_current_context().exit(status if status > 0 else ExitCode.NOT_STARTED)


def _start(directory: TakenRun, log: Path) -> subprocess.Popen[bytes]:
    """It holds the directory for as long as it lives: there is no record of the run before it has made one."""
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as errors:
        words = [str(directory.path.resolve())]
        return spawn_module(
            "testbed.runtimes.local.daemon", words, stdout=subprocess.PIPE, stderr=errors, pass_fds=directory.holds
        )


def tell_of_run(directory: RunDirectory, output_format: Format) -> None:
    """Which run it is, to stdout, for programs; a person has been told."""
    cells = directory.path.name, str(directory.path)
    match output_format:
        case Format.JSON:
            print_json(dict(zip(COLUMNS, cells, strict=True)))
        case Format.CSV:
            print_csv(COLUMNS, [cells])
        case Format.TABLE:
            pass
