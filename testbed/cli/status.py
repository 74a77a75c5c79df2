"""`testbed status`: lists runs and their progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.output import Cell, Format, format_option, print_csv, print_json, print_table
from testbed.cli.run_target import all_runs, find_run, results_option
from testbed.collect.health import UNKNOWN, read_run_health, read_wire_traffic
from testbed.collect.plan_head import PlanHead, read_plan_head
from testbed.control.commands import Look, Seen, ask
from testbed.control.log import last_word
from testbed.errors import TestbedError
from testbed.rundir import RunDirectory
from testbed.runtimes.registry import owner_of
from testbed.runtimes.runtime import UNSHAPED, Runtime
from testbed.runtimes.tracking.process_records import read_record
from testbed.units import format_rate, size_for_people

if TYPE_CHECKING:
    from testbed.cli.link_figures import LinkFigures, PairFigures

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
    "data_plane",
    "why",
)
FINISHED, FAILED, INTERRUPTED = "finished", "failed", "interrupted"
LEFT_BEHIND, UNFINISHED, OUT_OF_REACH = "left behind", "unfinished", "out of reach"
STARTING = "starting"
_GOING_ON = (STARTING, "training", "ending", OUT_OF_REACH)
_UNSHAPED = f"unshaped: plain loopback (engine `{UNSHAPED}`)"
_EVERY_S = 1.0
_MOST_REASONS = 3
_MOST_JOURNALS_BYTES = 8 << 20
"""The largest journals that are read for a list of runs; those of a named run are read whatever their size."""


@click.command("status")
@click.argument("run", required=False)
@click.option("--watch", "-w", is_flag=True, help="Repeat every second until no run goes on.")
@click.option(
    "--links",
    "most_links",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="For one run: show the busiest N links.",
)
@click.option(
    "--pairs",
    "most_pairs",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="For one run: show the N pairs of nodes that send most.",
)
@results_option
@format_option
def command(
    run: str | None, results: Path, *, watch: bool, most_links: int, most_pairs: int, output_format: Format
) -> None:
    """Show the progress of runs; of one run also its busiest links and pairs of nodes.

    \b
    Examples:
      testbed status
      testbed status wan16-dpsgd-1 --watch

    State: starting, training, ending; finished, failed, interrupted; unfinished (it ended without a verdict, or runs in
    virtual time); left behind (unfinished, and some of its processes or files remain: testbed destroy); out of reach
    (another user's run, or its Docker Engine does not answer). Rounds are those of the slowest learner, OF those that
    were planned. Nodes are the live ones, or all planned ones if the run is over.
    """
    while True:
        runs = all_runs(results) if run is None else [find_run(run, results)]
        runtimes = [owner_of(each) for each in runs]
        # Once: a Docker Engine may have to be asked.
        going = [_goes_on(each, runtime) for each, runtime in zip(runs, runtimes, strict=True)]
        rows = [_row(*each, is_named=run is not None) for each in zip(runs, runtimes, going, strict=True)]
        links = pairs = None
        if run is not None:
            links, pairs = _figures(runs[0], most_links, most_pairs) if going[0] is True else ([], [])
        if watch and output_format is Format.TABLE and sys.stdout.isatty():
            click.clear()
        _print(rows, links, pairs, output_format)
        if not rows:
            click.echo(f"no runs in {results}", err=True)
        if not watch or not any(row[1] in _GOING_ON for row in rows):
            return
        sys.stdout.flush()
        time.sleep(_EVERY_S)


def _figures(run: RunDirectory, most_links: int, most_pairs: int) -> tuple[list[LinkFigures], list[PairFigures]]:
    """The busiest links and pairs of a live run."""
    from testbed.cli.link_figures import busiest, busiest_pairs

    return busiest(run.path / "engine", most_links), busiest_pairs(run.path / "engine", most_pairs, _names(run))


def _print(
    rows: Sequence[list[Cell]],
    links: list[LinkFigures] | None,
    pairs: list[PairFigures] | None,
    output_format: Format,
) -> None:
    match output_format:
        case Format.JSON:
            found: list[dict[str, object]] = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
            if links is not None:
                found[0]["links"] = [each._asdict() for each in links]
            if pairs is not None:
                found[0]["pairs"] = [each._asdict() for each in pairs]
            print_json(found)
        case Format.CSV:
            print_csv(COLUMNS, rows)
        case Format.TABLE:
            print_table(
                COLUMNS[:-1],
                [_for_people(row)[:-1] for row in rows],
                least=("data_plane", "late_p99_ms", "loss", "done", "of", "t", "bytes_sent", "accuracy", "nodes"),
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
                    least=("queue mean", "packets/s", "dropped", "queue max"),
                )
            if pairs:
                print_table(
                    ("node", "to node", "sent", "packets/s", "dropped", "queue mean"),
                    [
                        (
                            *(each.origin, each.dest, format_rate(each.rate_bps), each.packets_s, each.dropped),
                            f"{each.queue_mean_ms:.3g}ms",
                        )
                        for each in pairs
                    ],
                    least=("packets/s", "queue mean", "dropped"),
                )


def _names(run: RunDirectory) -> list[str]:
    """The names of a run's nodes, by rank."""
    return [node.name for node in read_plan_head(run.plan)[0].nodes or ()]


def _for_people(row: list[Cell]) -> list[Cell]:
    place = COLUMNS.index("bytes_sent")
    size = row[place]
    return [*row[:place], size_for_people(size) if isinstance(size, int) else None, *row[place + 1 :]]


def _row(run: RunDirectory, runtime: Runtime, goes_on: bool | None, *, is_named: bool) -> list[Cell]:
    """The row of a run. It says so if the run's network is not emulated, and which data plane of the fabric does it."""
    plan, _ = read_plan_head(run.plan)
    *row, why = _state(run, plan, runtime, goes_on, is_named=is_named)
    if plan.engine == UNSHAPED:
        why = f"{_UNSHAPED}; {why}" if why else _UNSHAPED
    return [*row, read_wire_traffic(run.path).data_plane, why]


def _state(run: RunDirectory, plan: PlanHead, runtime: Runtime, goes_on: bool | None, *, is_named: bool) -> list[Cell]:
    name = run.path.name
    if goes_on is None:
        return _over(run, plan, OUT_OF_REACH, is_named=is_named)
    if not goes_on:
        return _over(run, plan, None if read_record(run) is None else LEFT_BEHIND, is_named=is_named)
    from testbed.control.progress import unheard_words

    try:
        seen = ask(runtime.attach(run).control, Look())
    except TestbedError:
        return _over(run, plan, None if _goes_on(run, runtime) is False else _silent(run), is_named=is_named)
    assert isinstance(seen, Seen)  # noqa: S101 - the answer to `Look`
    health = "overloaded" if seen.overloaded else "valid"
    why = [*seen.overloaded, *([unheard_words(seen.unheard)] if seen.unheard else [])]
    return [
        *(name, seen.phase, seen.rounds, seen.rounds_planned, seen.nodes, seen.done),
        *(_rounded(seen.accuracy), _rounded(seen.loss), seen.bytes_sent),
        *(round(seen.t, 1), seen.lateness_p99_ms, health, "; ".join(why) or None),
    ]


def _goes_on(run: RunDirectory, runtime: Runtime) -> bool | None:
    """Whether a run goes on; None if unknown because its Docker Engine does not answer."""
    try:
        return runtime.goes_on(run)
    except TestbedError:
        return None


def _silent(run: RunDirectory) -> str:
    """The state of a live run that does not answer: control listens only after it has begun its log."""
    return OUT_OF_REACH if run.events.exists() else STARTING


def _over(run: RunDirectory, plan: PlanHead, state: str | None, *, is_named: bool) -> list[Cell]:
    """The row of a run that cannot be asked, from its files."""
    t, over = last_word(run.events)
    if over is None:
        ended = UNFINISHED
    elif over.reason in (FAILED, INTERRUPTED):
        ended = over.reason
    else:
        ended = FAILED if over.failed else FINISHED
    to_do = []
    if state == LEFT_BEHIND:
        to_do.append(f"something of it is there still: `testbed destroy {run.path}` removes it")
        state = LEFT_BEHIND if over is None else None
    judged = read_run_health(run.path)
    health: Cell = None if judged.health == UNKNOWN else judged.health
    at = None if t is None else round(t, 1)
    row: list[Cell] = [run.path.name, state or ended, None, plan.rounds, *([None] * 5), at, None, health]
    if not is_named and _journals_bytes(run) > _MOST_JOURNALS_BYTES:
        return [*row, _joined(judged.why, to_do)]
    from testbed.collect.run import collect_run
    from testbed.collect.summary import summarise

    found = summarise(collect_run(run))
    if over is None and not found.bytes.sent and not found.rounds:
        return [*row, _joined(to_do)]  # all that is known is that it has not begun
    if found.health != UNKNOWN and over is not None:
        row[11] = found.health
    row[2], row[4], row[5] = found.rounds_least, found.nodes.planned, found.nodes.finished
    row[6], row[7], row[8] = _rounded(found.accuracy.mean), _rounded(found.loss.mean), found.bytes.sent
    if over is None and found.drained_s is not None:  # control has not recorded how far the nodes came
        row[9] = round(max(found.drained_s, t or 0.0), 1)
    return [*row, _joined([] if over is None else found.problems[:_MOST_REASONS], to_do)]


def _joined(*reasons: Sequence[str]) -> str | None:
    return "; ".join(each for some in reasons for each in some) or None


def _journals_bytes(run: RunDirectory) -> int:
    try:
        return sum(journal.stat().st_size for journal in run.nodes.glob("*/journal.jsonl"))
    except OSError:
        return 0


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
