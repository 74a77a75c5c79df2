"""`testbed capture`: packets as a node of a run that is going on sees them."""

from __future__ import annotations

import select
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from testbed.cli.live_fabric import ask, live_fabric
from testbed.cli.quantity import Quantity
from testbed.cli.run_target import find_run, plan_of, ranks_of, results_option
from testbed.engines.fabric.start import FabricConversation, FabricLost
from testbed.errors import UsageProblem
from testbed.protocol import Capture, Watch
from testbed.units import parse_duration_s


@click.command(name="capture")
@click.argument("run", metavar="RUN", type=str)
@click.argument("node", metavar="NODE", type=str)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File; NODE.pcap if not given.")
@click.option(
    "--for", "duration_s", type=Quantity("duration", parse_duration_s), help="How long, such as 10s; else until Ctrl-C."
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
    rank = _one(node, ranks_of(plan_of(directory), [node]))
    path = (output or Path(f"{node}.pcap")).absolute()
    with live_fabric(directory) as fabric:
        ask(fabric, partial(Capture, rank=rank, path=str(path)))
        click.echo(f"capturing {node}" + ("; Ctrl-C ends it" if duration_s is None else ""), err=True)
        try:
            _wait(fabric, duration_s)
        finally:
            with suppress(FabricLost):  # then it has closed the file already
                ask(fabric, partial(Capture, rank=rank))
    try:
        size = path.stat().st_size
    except OSError as problem:
        raise UsageProblem(f"{path} is not there any more: {problem.strerror}") from None
    click.echo(f"{size} bytes in {path}", err=True)


def _one(node: str, ranks: tuple[int, ...]) -> int:
    if len(ranks) != 1:
        raise UsageProblem(f"{node} is {len(ranks)} nodes", f"take one, such as {node}.0")
    return ranks[0]


def _wait(fabric: FabricConversation, duration_s: float | None) -> None:
    """Until the time is over, somebody presses Ctrl-C, or the run ends."""
    fabric.ask(Watch)
    deadline_s = None if duration_s is None else time.monotonic() + duration_s
    with suppress(KeyboardInterrupt, FabricLost):
        while True:
            left_s = None if deadline_s is None else deadline_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            select.select([fabric], [], [], left_s)
            fabric.notes()
