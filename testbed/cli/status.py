"""`testbed status`: which runs there are and how far they are."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from testbed.cli.link_figures import LinkFigures, busiest
from testbed.cli.output import Cell, Format, format_option, print_csv, print_json, print_table
from testbed.cli.run_target import all_runs, find_run, goes_on, results_option
from testbed.control.commands import Look, Seen, ask
from testbed.errors import UsageProblem
from testbed.records import Over
from testbed.rundir import RunDirectory
from testbed.runtimes.local.places import commands_socket, read_record
from testbed.units import format_rate, size_for_people

COLUMNS = (
    "run",
    "state",
    "rounds",
    "of",
    "nodes",
    "done",
    "accuracy",
    "loss",
    "bytes_sent",
    "t",
    "late_p99_ms",
    "health",
)
OVER, LEFT_BEHIND, UNFINISHED, OUT_OF_REACH = "over", "left behind", "unfinished", "out of reach"
_GOING_ON = ("starting", "training", "ending", OUT_OF_REACH)
_EVERY_S = 1.0
_TAIL_BYTES = 1 << 16


@click.command("status")
@click.argument("run", required=False)
@click.option("--watch", "-w", is_flag=True, help="Once a second, until no run goes on any more.")
@click.option(
    "--links",
    "most_links",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Of one run: so many links, those first that carry most.",
)
@results_option
@format_option
def command(run: str | None, results: Path, *, watch: bool, most_links: int, output_format: Format) -> None:
    """Show how far runs are; of one run also what its links carry.

    \b
    Examples:
      testbed status
      testbed status wan16-dpsgd-1 --watch

    State: starting, training, ending; over; unfinished (it ended without a last word, or is in virtual time);
    left behind (something of it is there still: testbed destroy); out of reach (another user's).
    """
    while True:
        runs = all_runs(results) if run is None else [find_run(run, results)]
        rows = [_row(each) for each in runs]
        links = None if run is None else busiest(runs[0].path / "engine", most_links if goes_on(runs[0]) else 0)
        if watch and output_format is Format.TABLE and sys.stdout.isatty():
            click.clear()
        _print(rows, links, output_format)
        if not rows:
            click.echo(f"no runs in {results}", err=True)
        if not watch or not any(row[1] in _GOING_ON for row in rows):
            return
        sys.stdout.flush()
        time.sleep(_EVERY_S)


def _print(rows: Sequence[list[Cell]], links: list[LinkFigures] | None, output_format: Format) -> None:
    match output_format:
        case Format.JSON:
            found: list[dict[str, object]] = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
            if links is not None:
                found[0]["links"] = [each._asdict() for each in links]
            print_json(found)
        case Format.CSV:
            print_csv(COLUMNS, rows)
        case Format.TABLE:
            print_table(COLUMNS, [_for_people(row) for row in rows], least=("late_p99_ms", "loss", "done", "of"))
            if links:
                print_table(
                    ("from", "to", "carried", "packets/s", "dropped", "queue mean", "queue max"),
                    [
                        (
                            *(each.origin, each.dest, format_rate(each.rate_bps), each.packets_s, each.dropped),
                            *(f"{each.queue_mean_ms:.3g}ms", f"{each.queue_max_ms:.3g}ms"),
                        )
                        for each in links
                    ],
                )


def _for_people(row: list[Cell]) -> list[Cell]:
    place = COLUMNS.index("bytes_sent")
    size = row[place]
    return [*row[:place], size_for_people(size) if isinstance(size, int) else None, *row[place + 1 :]]


def _row(run: RunDirectory) -> list[Cell]:
    name, record = run.path.name, read_record(run)
    if record is None or not goes_on(run):
        return _over(run, LEFT_BEHIND if record is not None else None)
    try:
        seen = ask(commands_socket(Path(record.sockets)), Look())
    except UsageProblem:
        return _over(run, OUT_OF_REACH) if goes_on(run) else _over(run, None)
    assert isinstance(seen, Seen)  # noqa: S101 - the answer to `Look`
    health = "; ".join(seen.overloaded) or "valid"
    return [
        *(name, seen.phase, seen.rounds, seen.rounds_planned, seen.nodes, seen.done),
        *(_rounded(seen.accuracy), _rounded(seen.loss), seen.bytes_sent),
        *(round(seen.t, 1), seen.lateness_p99_ms, health),
    ]


def _over(run: RunDirectory, state: str | None) -> list[Cell]:
    """Of a run that cannot be asked: what it has written last."""
    health: Cell = None
    t, has_said_so = _last_word(run.events)
    try:
        summary = msgspec.json.decode((run.path / "summary.json").read_bytes())
        health, t = str(summary["health"]), round(float(summary["t"]), 1)
        has_said_so = True
    except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError):
        pass
    state = state or (OVER if has_said_so else UNFINISHED)
    return [run.path.name, state, *([None] * 7), t, None, health]


def is_over(run: RunDirectory) -> bool:
    """Whether it has said so itself."""
    return _last_word(run.events)[1]


def _last_word(events: Path) -> tuple[float | None, bool]:
    """When the last record of control's log was, and whether it says that the run is over."""
    try:
        with events.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            last = json.loads(file.read().splitlines()[-1])
        return round(float(last["t"]), 1), last["type"] == Over.__struct_config__.tag
    except (OSError, IndexError, KeyError, TypeError, ValueError):
        return None, False


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
