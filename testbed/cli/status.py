"""`testbed status`: which runs there are and how far they are."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from testbed.cli.output import Cell, Format, format_option, print_csv, print_json, print_table
from testbed.cli.run_target import all_runs, door_of, find_run, results_option
from testbed.control.commands import Look, Seen, ask
from testbed.errors import UsageProblem
from testbed.rundir import RunDirectory
from testbed.runtimes.local.places import read_record

COLUMNS = ("run", "state", "rounds", "of", "nodes", "accuracy", "loss", "t", "late_p99_ms", "health")
_EVERY_S = 1.0


@click.command("status")
@click.argument("run", required=False)
@click.option("--watch", "-w", is_flag=True, help="Once a second, until the run is over.")
@results_option
@format_option
def command(run: str | None, results: Path, *, watch: bool, output_format: Format) -> None:
    """Show how far runs are.

    \b
    Examples:
      testbed status
      testbed status wan16-dpsgd-1 --watch
    """
    if watch and run is None:
        raise UsageProblem("which run is to be watched?", "testbed status RUN --watch")
    while True:
        runs = all_runs(results) if run is None else [find_run(run, results)]
        rows = [_row(each) for each in runs]
        _print(rows, output_format)
        if not watch or rows[0][1] in ("over", "left behind"):
            return
        time.sleep(_EVERY_S)


def _print(rows: Iterable[list[Cell]], output_format: Format) -> None:
    match output_format:
        case Format.JSON:
            print_json([dict(zip(COLUMNS, row, strict=True)) for row in rows])
        case Format.CSV:
            print_csv(COLUMNS, rows)
        case Format.TABLE:
            print_table(COLUMNS, rows)


def _row(run: RunDirectory) -> list[Cell]:
    name = run.path.name
    try:
        seen = ask(door_of(run), Look())
    except UsageProblem:
        return _over(run)
    assert isinstance(seen, Seen)  # noqa: S101 - the answer to `Look`
    health = "; ".join(seen.overloaded) or "valid"
    return [
        *(name, seen.phase, seen.rounds, seen.rounds_planned, seen.nodes, _rounded(seen.accuracy), _rounded(seen.loss)),
        *(round(seen.t, 1), seen.lateness_p99_ms, health),
    ]


def _over(run: RunDirectory) -> list[Cell]:
    """Of a run that does not go on: what it has written last."""
    state = "over" if read_record(run) is None else "left behind"
    health: Cell = None
    t: Cell = None
    try:
        summary = msgspec.json.decode((run.path / "summary.json").read_bytes())
        health, t = str(summary["health"]), round(float(summary["t"]), 1)
    except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError):
        t = _last_t(run.events)
    return [run.path.name, state, None, None, None, None, None, t, None, health]


def _last_t(events: Path) -> float | None:
    try:
        last = events.read_bytes().splitlines()[-1]
        return round(float(json.loads(last)["t"]), 1)
    except (OSError, IndexError, KeyError, TypeError, ValueError):
        return None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
