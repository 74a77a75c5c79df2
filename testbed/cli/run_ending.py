"""The messages at the end of a run, and the exit code.

Takes an `Outcome`, writes messages to stderr, and the run's summary to stdout if data is requested.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from testbed.cli.output import Cell, Format, colour, print_csv, print_json, printable
from testbed.cli.progress_view import in_number, in_time
from testbed.cli.run_again import run_again
from testbed.cli.verb_group import WORDS
from testbed.code import place_words
from testbed.control.health import FILE, summary_of
from testbed.run_files import read_plain
from testbed.rundir import RunDirectory
from testbed.units import size_for_people

if TYPE_CHECKING:
    from testbed.control.outcome import Outcome
    from testbed.plan.model import RunPlan

_DETACHED = ("run_id", "folder")
_MOST_TOLD = 5
_LONGEST = 2000
"""The most characters of a node's own message."""
_OVERLOADED = "OVERLOADED: these numbers are not those of the run that was asked for"
_REMEDY = "take fewer nodes, a larger compute.ms_per_step or --time-scale, or a machine with less else to do"
_WHY = {
    "finished": "finished",
    "time": "its time is over",
    "accuracy": "the accuracy is reached",
    "interrupted": "interrupted",
    "failed": "failed",
}


def tell_ending(
    outcome: Outcome,
    plan: RunPlan,
    path: Path,
    real_s: float,
    say: Callable[[str], None],
    hints: Iterable[str] = (),
) -> None:
    """Prints errors and hints in any case, the rest through `say`, and exits with the code of the outcome."""
    for line in _failures(outcome):
        click.echo(_harmless(f"Error: {line}"), err=True)
    for words in outcome.broken:
        click.echo(_harmless(f"Error: {words}"), err=True)
    for line in hints:
        click.echo(_harmless(line), err=True)
    say(f"{_WHY[outcome.reason]}: {', '.join(_figures(outcome, real_s))}")
    for remark in outcome.remarks:
        say(_harmless(f"note: {remark}"))
    if outcome.overloaded:
        click.secho(_OVERLOADED, fg="red", bold=True, err=True, color=colour())
        for why in outcome.overloaded:
            click.echo(f"  {why}", err=True)
    if outcome.overloaded and not outcome.failures:  # nodes that failed would fail again
        words = click.get_current_context().meta.get(WORDS, ())
        again = run_again(words, plan, _summary(outcome, plan, path, real_s))
        told = (_REMEDY,) if again is None else (f"likely to be valid: {again.command}", f"({again.meaning})")
        for words in told:
            click.echo(f"  {words}", err=True)
    for node in _with_tracebacks(outcome, RunDirectory(path)):
        say(f"how it came to that: testbed logs {path} {node}")
    if path.is_dir():
        say(f"next: testbed collect {path}")
    if outcome.exit_code:
        click.get_current_context().exit(outcome.exit_code)


def _with_tracebacks(outcome: Outcome, run: RunDirectory) -> list[str]:
    """The first failed node whose log has a traceback, if there is one."""
    failed = (each.node for each in outcome.failures if each.failure.line is not None)
    return [node for node in failed if run.node(node).log.is_file()][:1]


def _harmless(words: str) -> str:
    """A learner's message without control characters, and shortened."""
    shown = words if len(words) <= _LONGEST else f"{words[:_LONGEST]} …"
    return "\n".join(printable(line) for line in shown.splitlines())


def tell_of_run(directory: RunDirectory, output_format: Format) -> None:
    """Prints the name of a detached run to stdout, for programs."""
    cells = directory.path.name, str(directory.path)
    match output_format:
        case Format.JSON:
            print_json(dict(zip(_DETACHED, cells, strict=True)))
        case Format.CSV:
            print_csv(_DETACHED, [cells])
        case Format.TABLE:
            pass


def print_summary(outcome: Outcome, plan: RunPlan, path: Path, real_s: float, output_format: Format) -> None:
    """Prints the content of summary.json to stdout; nothing on a terminal."""
    if output_format is Format.TABLE:
        return
    summary = _summary(outcome, plan, path, real_s)
    if output_format is Format.JSON:
        print_json(summary)
    else:
        print_csv(("what", "value"), _flat(summary))


def _summary(outcome: Outcome, plan: RunPlan, path: Path, real_s: float) -> Mapping[str, object]:
    """The summary that the run has written, or would have written."""
    try:
        return dict(json.loads(read_plain(path / FILE, path)))
    except FileNotFoundError:
        made = summary_of(plan, outcome, {}, ready_s=None, real_s=real_s, lateness=None)
        return dict(json.loads(msgspec.json.encode(made)))


def _flat(value: Mapping[str, object], before: str = "") -> Iterator[tuple[str, Cell]]:
    for key, each in value.items():
        if isinstance(each, Mapping):
            yield from _flat(each, f"{before}{key}_")
        elif isinstance(each, list):
            yield before + key, "; ".join(map(str, each))
        else:
            assert each is None or isinstance(each, str | int | float | bool)  # noqa: S101 - JSON has nothing else
            yield before + key, each


def _figures(outcome: Outcome, real_s: float) -> Iterator[str]:
    how = " ended in order" if outcome.failures else " done" if outcome.reason == "interrupted" else ""
    yield in_number(outcome.finished, "node") + how
    last = outcome.last
    if last is None:
        return
    yield in_number(last.rounds, "round")
    if last.accuracy is not None:
        yield f"accuracy {last.accuracy:.3f}"
    if last.loss is not None:
        yield f"loss {last.loss:.3f}"
    yield f"{size_for_people(last.bytes_sent)} sent"
    yield f"{in_time(outcome.t)} of emulated time in {in_time(real_s)}"


def _failures(outcome: Outcome) -> Iterator[str]:
    """One line per failure, for all nodes that had it."""
    alike: dict[str, list[str]] = {}
    for each in outcome.failures:
        failure = each.failure
        told = place_words(failure.file, failure.line) + failure.message
        alike.setdefault(told, []).append(each.node)
    for told, nodes in list(alike.items())[:_MOST_TOLD]:
        others = f" and {in_number(len(nodes) - 1, 'other')}" if len(nodes) > 1 else ""
        yield f"node {nodes[0]}{others} failed: {told}"
    if len(alike) > _MOST_TOLD:
        left = sum(len(nodes) for nodes in list(alike.values())[_MOST_TOLD:])
        yield f"{in_number(left, 'more node')} failed; their journals say why"
