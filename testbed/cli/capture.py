"""`testbed capture`: the packets of a node in a live run."""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.live_fabric import ask, live_fabric
from testbed.cli.quantity import Quantity
from testbed.cli.run_target import find_run, live_run, node_of, plan_of, results_option
from testbed.engines.fabric.requests import FabricLost
from testbed.errors import UsageProblem
from testbed.protocol.fabric import Capture, Watch
from testbed.units import parse_duration_s

if TYPE_CHECKING:
    from testbed.engines.fabric.start import FabricConversation


@click.command(name="capture")
@click.argument("run", metavar="RUN", type=str)
@click.argument("node", metavar="NODE", type=str)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File; NODE.pcap if not given.")
@click.option(
    "--for",
    "duration_s",
    type=Quantity("duration", parse_duration_s),
    help="Stop after this time, such as 10s; else on Ctrl-C.",
)
@results_option
def command(run: str, node: str, output: Path | None, duration_s: float | None, results: Path) -> None:
    """Write the packets that NODE of a run sends and receives to a file, in pcap form: Wireshark opens it.

    A TCP packet of up to 64 kB is one packet here, as it is for the node; on its links it is many.

    \b
    Example:
      testbed capture my-run tokyo.0 -o tokyo.pcap --for 10s
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends in good order, too
    directory = find_run(run, results)
    target = node_of(plan_of(directory), node)
    path = (output or Path(f"{target.name}.pcap")).absolute()
    written, seen = live_run(directory).capture_file(path)
    if path.exists() and not path.is_file():
        raise UsageProblem(f"cannot write {path}: it is no file", "give another one with -o")
    with live_fabric(directory) as fabric:
        if written != path:
            _check_place(path)
        ask(fabric, partial(Capture, rank=target.rank, path=str(seen)))
        click.echo(f"capturing {target.name}" + ("; Ctrl-C ends it" if duration_s is None else ""), err=True)
        try:
            _wait(fabric, duration_s)
        finally:
            incomplete = _end(fabric, target.rank)
    if written != path:
        _bring(written, path)
    if incomplete is not None:
        raise UsageProblem(incomplete.message.replace(str(seen), str(path)), incomplete.hint)
    try:
        size = path.stat().st_size
    except OSError as problem:
        raise UsageProblem(f"{path} is not there any more: {problem.strerror}") from None
    click.echo(f"{size} bytes in {path}", err=True)


def _end(fabric: FabricConversation, rank: int) -> UsageProblem | None:
    """Closes the file; gives what is missing from it, if anything."""
    try:
        ask(fabric, partial(Capture, rank=rank))
    except FabricLost:
        return None  # the fabric has closed the file already
    except UsageProblem as problem:
        return problem
    return None


def _check_place(path: Path) -> None:
    """Checks that the file can be written there, before the fabric writes it elsewhere."""
    target = path if path.exists() else path.parent
    if not target.exists():
        raise UsageProblem(f"cannot write {path}: there is no folder {target}")
    if not os.access(target, os.W_OK):
        raise UsageProblem(f"cannot write {path}: permission denied")


def _bring(written: Path, path: Path) -> None:
    """Moves the file to its destination; if that fails, it stays where it is and a message says so."""
    try:
        shutil.move(written, path.resolve())  # the target of a link is written, not the link
    except OSError as problem:
        raise UsageProblem(f"cannot write {path}: {problem.strerror}", f"the packets are in {written}") from None


def _wait(fabric: FabricConversation, duration_s: float | None) -> None:
    """Waits until the time is over, Ctrl-C is pressed, or the run ends."""
    fabric.ask(Watch)
    deadline_s = None if duration_s is None else time.monotonic() + duration_s
    with suppress(KeyboardInterrupt, FabricLost):
        while True:
            left_s = None if deadline_s is None else deadline_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            select.select([fabric], [], [], left_s)
            fabric.notes()
