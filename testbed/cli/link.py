"""`testbed link`: shows the links of a live run, and changes them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from testbed.cli.link_hint import neighbours_told
from testbed.cli.live_fabric import ask as ask_fabric
from testbed.cli.live_fabric import live_fabric
from testbed.cli.output import Cell, Format, format_option, print_csv, print_json, print_table
from testbed.cli.quantity import Quantity
from testbed.cli.run_target import find_run, live_run, results_option
from testbed.cli.verb_group import VerbGroup
from testbed.control.commands import Done, ask
from testbed.errors import UsageProblem
from testbed.protocol.fabric import Links, LinkState, ResetLink, SetLink, ShowLink
from testbed.rundir import RunDirectory
from testbed.units import (
    format_latency,
    format_loss,
    format_rate,
    format_size,
    parse_background_bps,
    parse_latency_ms,
    parse_loss,
    parse_rate_bps,
    parse_size_bytes,
)

COLUMNS = (
    "from",
    "to",
    "latency_ms",
    "jitter_ms",
    "loss",
    "rate_bps",
    "queue_ms",
    "queue_bytes",
    "background_bps",
    "up",
    "changed",
)
_UNLIMITED = float("inf")


@dataclass(frozen=True, slots=True)
class _Queue:
    """A queue limit, in time or in bytes."""

    ms: float | None = None
    size_bytes: float | None = None


def _queue(text: str) -> _Queue:
    if text.endswith("B"):
        return _Queue(size_bytes=float(parse_size_bytes(text)))
    return _Queue(ms=parse_latency_ms(text))


_run = click.argument("run", metavar="RUN", type=str)
_one_way = click.option("--one-way", is_flag=True, help="Only from A to B.")


@click.group(name="link", cls=VerbGroup)
def command() -> None:
    """Show or change the links of a live run.

    A and B are bridges or nodes (a service or a pattern means all links of its nodes). A change holds until it is
    reset, whatever the topology's events do to the link meanwhile. Packets under way are not dropped.

    \b
    Example:
      testbed link show my-run r-tokyo r-seoul
      testbed link set my-run r-tokyo r-seoul --latency 50ms --loss 1% --rate 10Mbps
      testbed link reset my-run
    """


@command.command()
@_run
@click.argument("a", type=str)
@click.argument("b", type=str)
@_one_way
@results_option
@format_option
def show(run: str, a: str, b: str, one_way: bool, results: Path, output_format: Format) -> None:
    """Show the current properties of the links between A and B.

    \b
    Example:
      testbed link show my-run r-tokyo r-seoul
    """
    directory = find_run(run, results)
    with live_fabric(directory) as fabric, neighbours_told(directory, a, b):
        found = ask_fabric(fabric, partial(ShowLink, origin=a, dest=b, both=not one_way))
    assert isinstance(found, Links)  # noqa: S101 - the answer to this request
    match output_format:
        case Format.TABLE:
            columns = ("from", "to", "latency", "jitter", "loss", "rate", "queue", "now")
            print_table(columns, map(_shown, found.links), least=("queue", "jitter", "loss"))
        case Format.CSV:
            print_csv(COLUMNS, map(_cells, found.links))
        case Format.JSON:
            print_json([dict(zip(COLUMNS, _cells(link), strict=True)) for link in found.links])
    if found.left_out:
        click.echo(f"{found.left_out} more links: name their ends more exactly", err=True)


@command.command(name="set")
@_run
@click.argument("a", type=str)
@click.argument("b", type=str)
@click.option("--latency", type=Quantity("latency", parse_latency_ms), help="One way, such as 50ms.")
@click.option("--jitter", type=Quantity("latency", parse_latency_ms), help="Standard deviation, such as 2ms.")
@click.option("--loss", type=Quantity("loss", parse_loss), help="Such as 1%.")
@click.option("--rate", type=Quantity("rate", parse_rate_bps), help="Such as 10Mbps, or unlimited.")
@click.option("--queue", type=Quantity("queue", _queue), help="Its limit, such as 50ms or 64KiB.")
@click.option("--background", type=Quantity("rate", parse_background_bps), help="Background traffic, such as 2Mbps.")
@click.option("--up/--down", default=None, help="Whether it carries anything.")
@_one_way
@results_option
def set_(
    run: str,
    a: str,
    b: str,
    latency: float | None,
    jitter: float | None,
    loss: float | None,
    rate: float | None,
    queue: _Queue | None,
    background: float | None,
    up: bool | None,
    one_way: bool,
    results: Path,
) -> None:
    """Change the links between A and B from now on; other properties stay as they are.

    \b
    Example:
      testbed link set my-run tokyo.0 r-tokyo --rate 2Mbps --one-way
    """
    limit = queue or _Queue()
    directory = find_run(run, results)
    change = SetLink(
        0,
        origin=a,
        dest=b,
        both=not one_way,
        latency_ms=latency,
        jitter_ms=jitter,
        loss=loss,
        rate_bps=rate,
        queue_ms=limit.ms,
        queue_bytes=limit.size_bytes,
        background_bps=background,
        up=up,
    )
    with neighbours_told(directory, a, b):
        _ask_run(directory, change)


@command.command()
@_run
@click.argument("a", type=str, required=False)
@click.argument("b", type=str, required=False)
@_one_way
@results_option
def reset(run: str, a: str | None, b: str | None, one_way: bool, results: Path) -> None:
    """Reset the links between A and B, or all links, to the topology and its events.

    \b
    Example:
      testbed link reset my-run r-tokyo r-seoul
    """
    if (a is None) is not (b is None):
        raise UsageProblem("a link has two ends", "give both, or none for all links")
    if a is None and one_way:
        raise UsageProblem("--one-way needs the two ends of a link")
    directory = find_run(run, results)
    with neighbours_told(directory, a, b):
        _ask_run(directory, ResetLink(0, origin=a, dest=b, both=not one_way))


def _ask_run(directory: RunDirectory, change: SetLink | ResetLink) -> None:
    """Requests a change from control, so that it is in the run's log."""
    done = ask(live_run(directory).control, change)
    assert isinstance(done, Done)  # noqa: S101 - the answer to this request
    click.echo(f"done, at {done.t:.2f}s", err=True)


def _cells(link: LinkState) -> tuple[Cell, ...]:
    """The cells of a link; unlimited is null."""
    numbers = (link.rate_bps, link.queue_ms, link.queue_bytes)
    limits = (None if value == _UNLIMITED else value for value in numbers)
    ends = (link.origin, link.dest, link.latency_ms, link.jitter_ms, link.loss)
    return (*ends, *limits, link.background_bps, link.up, link.changed)


def _shown(link: LinkState) -> tuple[Cell, ...]:
    limits = []
    if link.queue_ms != _UNLIMITED:
        limits.append(format_latency(link.queue_ms))
    if link.queue_bytes != _UNLIMITED:
        limits.append(format_size(int(link.queue_bytes)))
    now = ("up" if link.up else "down") + (", changed" if link.changed else "")
    return (
        link.origin,
        link.dest,
        format_latency(link.latency_ms),
        format_latency(link.jitter_ms),
        format_loss(link.loss),
        format_rate(link.rate_bps),
        " or ".join(limits) or "unlimited",
        now,
    )
