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
from testbed.collect.health import UNKNOWN, read_judged
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
    "why",
)
FINISHED, FAILED, INTERRUPTED = "finished", "failed", "interrupted"
LEFT_BEHIND, UNFINISHED, OUT_OF_REACH = "left behind", "unfinished", "out of reach"
_GOING_ON = ("starting", "training", "ending", OUT_OF_REACH)
_EVERY_S = 1.0
_TAIL_BYTES = 1 << 16
_MOST_REASONS = 3
_MOST_JOURNALS_BYTES = 8 << 20
"""Of a run among others; the journals of one that was named are read whatever their size."""


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

    State: starting, training, ending; finished, failed, interrupted; unfinished (it ended without a last word, or is
    in virtual time); left behind (something of it is there still: testbed destroy); out of reach (another user's).
    Rounds are those of the slowest learner. Nodes are those that live, and of a run that is over all that were planned.
    """
    while True:
        runs = all_runs(results) if run is None else [find_run(run, results)]
        rows = [_row(each, is_named=run is not None) for each in runs]
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
            print_table(
                COLUMNS[:-1],
                [_for_people(row)[:-1] for row in rows],
                least=("late_p99_ms", "loss", "done", "of"),
                notes=[f"{row[0]}: {row[-1]}" for row in rows if row[-1]],
            )
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


def _row(run: RunDirectory, *, is_named: bool) -> list[Cell]:
    name, record = run.path.name, read_record(run)
    if record is None or not goes_on(run):
        return _over(run, LEFT_BEHIND if record is not None else None, is_named=is_named)
    try:
        seen = ask(commands_socket(Path(record.sockets)), Look())
    except UsageProblem:
        return _over(run, OUT_OF_REACH if goes_on(run) else None, is_named=is_named)
    assert isinstance(seen, Seen)  # noqa: S101 - the answer to `Look`
    health = "; ".join(seen.overloaded) or "valid"
    return [
        *(name, seen.phase, seen.rounds, seen.rounds_planned, seen.nodes, seen.done),
        *(_rounded(seen.accuracy), _rounded(seen.loss), seen.bytes_sent),
        *(round(seen.t, 1), seen.lateness_p99_ms, health, None),
    ]


def _over(run: RunDirectory, state: str | None, *, is_named: bool) -> list[Cell]:
    """Of a run that cannot be asked: what it, and its nodes, have written."""
    t, over = _last_word(run.events)
    if over is None:
        ended = UNFINISHED
    elif over.reason in (FAILED, INTERRUPTED):
        ended = over.reason
    else:
        ended = FAILED if over.failed else FINISHED
    judged = read_judged(run.path)
    health: Cell = None if judged.health == UNKNOWN else judged.health
    row: list[Cell] = [run.path.name, state or ended, *([None] * 7), t, None, health]
    if not is_named and _journals_bytes(run) > _MOST_JOURNALS_BYTES:
        return [*row, "; ".join(judged.why) or None]
    from testbed.collect.run import collect_run
    from testbed.collect.summary import summarise

    found = summarise(collect_run(run))
    if over is None and not found.bytes.sent and not found.rounds:
        return [*row, None]  # nobody can say more than that it has not begun
    if found.health != UNKNOWN and over is not None:
        row[11] = found.health
    row[2], row[4], row[5] = found.rounds_least, found.nodes.planned, found.nodes.finished
    row[6], row[7], row[8] = _rounded(found.accuracy.mean), _rounded(found.loss.mean), found.bytes.sent
    return [*row, None if over is None else "; ".join(found.problems[:_MOST_REASONS]) or None]


def _journals_bytes(run: RunDirectory) -> int:
    try:
        return sum(journal.stat().st_size for journal in run.nodes.glob("*/journal.jsonl"))
    except OSError:
        return 0


def is_over(run: RunDirectory) -> bool:
    """Whether it has said so itself."""
    return _last_word(run.events)[1] is not None


def _last_word(events: Path) -> tuple[float | None, Over | None]:
    """When the last record of control's log was, and that record if the run is over."""
    try:
        with events.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            line = file.read().splitlines()[-1]
        t = round(float(json.loads(line)["t"]), 1)
    except (OSError, IndexError, KeyError, TypeError, ValueError):
        return None, None
    try:
        return t, msgspec.json.decode(line, type=Over)
    except msgspec.MsgspecError:
        return t, None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
