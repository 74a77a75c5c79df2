"""`testbed collect`: the results of one run, or of all runs of a folder."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from testbed.cli.output import print_csv, print_json, print_table, printable
from testbed.cli.output_file import write_atomically
from testbed.cli.quantity import Quantity
from testbed.cli.run_target import find_run, results_option
from testbed.collect.problems import named
from testbed.errors import IncompleteResults, UsageProblem
from testbed.rundir import find_runs
from testbed.units import parse_accuracy

if TYPE_CHECKING:
    from testbed.collect.details import NodeRow, RoundRow
    from testbed.collect.grouping import RunGroup
    from testbed.collect.summary import RunSummary
    from testbed.collect.tables import Table
    from testbed.collect.text_tables import TextTable

_MOST_PROBLEMS = 20
"""The most problems of a run that a table shows; the JSON has them all."""


class OutputForm(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class By(StrEnum):
    RUN = "run"
    NODE = "node"
    ROUND = "round"


@dataclass
class _Collected:
    """The data of all runs that the output needs; the columns of each run are freed once it is read."""

    runs: list[RunSummary] = field(default_factory=list)
    nodes: list[NodeRow] = field(default_factory=list)
    rounds: list[RoundRow] = field(default_factory=list)
    groups: list[RunGroup] = field(default_factory=list)


@click.command(name="collect")
@click.argument("given", metavar="RESULTS", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice([each.value for each in OutputForm]),
    default=OutputForm.TABLE.value,
    show_default=True,
    callback=lambda _context, _parameter, value: OutputForm(value),
    help="How to write the results.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of the terminal.")
@click.option(
    "--by",
    type=click.Choice([each.value for each in By]),
    default=By.RUN.value,
    show_default=True,
    callback=lambda _context, _parameter, value: By(value),
    help="One line for each run, node or round.",
)
@click.option(
    "--target",
    type=Quantity("accuracy", parse_accuracy),
    help="An accuracy such as 0.7 or 70%: shows when it was reached, and after how many bytes.",
)
@click.option("--group", is_flag=True, help="Combine runs that differ only in their seed: means, 95 % intervals.")
@results_option
def command(
    given: Path, results: Path, form: OutputForm, output: str | None, by: By, target: float | None, group: bool
) -> None:
    """Summarise the results of runs; RESULTS is a run's name or directory, or a folder of runs.

    Prints emulated time, bytes, accuracy and loss. Results of a crashed run are summarised as far as they can be read.
    Problems are printed to stderr, and the exit code is 8 if results are missing.

    \b
    Example:
      testbed collect results/
      testbed collect results/ --target 0.7 --group
      testbed collect wan16 --by node --format csv -o nodes.csv
    """
    if group and by is not By.RUN:
        raise UsageProblem("--group puts runs together: it goes with --by run only", "leave one of the two out")
    if form is OutputForm.PARQUET and output is None:
        raise UsageProblem("Parquet is not for terminals", "give a file with -o FILE")
    found = _collect(_place(given, results), by, target, group)
    _write(found, form, output, by, group)
    incomplete = sum(not run.complete for run in found.runs)
    if incomplete:
        many = len(found.runs)
        raise IncompleteResults(
            f"{incomplete} of {many} run{'' if many == 1 else 's'} {'is' if incomplete == 1 else 'are'} incomplete",
            "the numbers are of what could be read",
        )


def _place(given: Path, results: Path) -> Path:
    """The given path, or else the run of that name."""
    is_name = len(given.parts) == 1 and not given.exists()
    return find_run(str(given), results).path if is_name else given


def _collect(results: Path, by: By, target: float | None, group: bool) -> _Collected:
    from testbed.collect.details import node_rows, round_rows
    from testbed.collect.grouping import group_runs, settings_of
    from testbed.collect.run import collect_run, folders_of_runs
    from testbed.collect.summary import summarise

    found, keys = _Collected(), []
    for run in find_runs(results):
        result = collect_run(run)
        summary = summarise(result, target)
        found.runs.append(summary)
        if by is By.NODE:
            found.nodes += node_rows(result)
        elif by is By.ROUND:
            found.rounds += round_rows(result)
        if group:
            keys.append(settings_of(run, summary.by_hand, summary.data_plane))
        _tell(summary)
    others = [str(each) for each in folders_of_runs(results)]
    if not found.runs:
        hint = "a run is a folder with a plan.json or a folder `nodes`"
        raise UsageProblem(f"no runs in {results}", f"these hold runs: {named(others)}" if others else hint)
    if others:
        what = "1 folder here holds" if len(others) == 1 else f"{len(others)} folders here hold"
        click.echo(printable(f"{what} runs too, which are left out: {named(others)}"), err=True)
    if group:
        found.groups = group_runs(zip(keys, found.runs, strict=True))
        for each in found.groups:
            _tell_repeated(each)
    return found


def _tell(run: RunSummary) -> None:
    for problem in run.problems[:_MOST_PROBLEMS]:
        click.echo(f"{printable(run.run_id)}: {printable(problem)}", err=True)
    more = len(run.problems) - _MOST_PROBLEMS
    if more > 0:
        click.echo(f"{printable(run.run_id)}: … and {more} more: --format json has them", err=True)


def _tell_repeated(group: RunGroup) -> None:
    if group.left_out:
        click.echo(printable(f"a seed counts once in a group; left out of it: {named(group.left_out)}"), err=True)


def _write(found: _Collected, form: OutputForm, output: str | None, by: By, group: bool) -> None:
    if form is OutputForm.PARQUET:
        from testbed.collect.parquet import parquet_bytes

        assert output is not None  # noqa: S101 - the command has checked it
        write_atomically(output, parquet_bytes(_flat(found, by, group)))
    elif output is None:
        _print(found, form, by, group)
    else:
        with redirect_stdout(io.StringIO()) as text:
            _print(found, form, by, group)
        write_atomically(output, text.getvalue())


def _print(found: _Collected, form: OutputForm, by: By, group: bool) -> None:
    match form:
        case OutputForm.JSON:
            lists: dict[str, Sequence[RunSummary | NodeRow | RoundRow | RunGroup]] = {"runs": found.runs}
            if group:
                lists["groups"] = found.groups
            if by is By.NODE:
                lists["nodes"] = found.nodes
            if by is By.ROUND:
                lists["rounds"] = found.rounds
            print_json({name: [asdict(each) for each in rows] for name, rows in lists.items()})
        case OutputForm.CSV:
            table = _flat(found, by, group)
            print_csv(table.columns, table.rows)
        case _:
            shown = _for_people(found, by, group)
            print_table(shown.columns, shown.rows, least=shown.least, wrapped=shown.wrapped, notes=shown.notes)


def _flat(found: _Collected, by: By, group: bool) -> Table:
    from testbed.collect.details import NodeRow, RoundRow
    from testbed.collect.grouping import RunGroup
    from testbed.collect.summary import RunSummary
    from testbed.collect.tables import flat_table

    if group:
        return flat_table(RunGroup, found.groups)
    match by:
        case By.NODE:
            return flat_table(NodeRow, found.nodes)
        case By.ROUND:
            return flat_table(RoundRow, found.rounds)
        case _:
            return flat_table(RunSummary, found.runs)


def _for_people(found: _Collected, by: By, group: bool) -> TextTable:
    from testbed.collect.text_tables import group_table, node_table, round_table, run_table

    if group:
        return group_table(found.groups, found.runs)
    match by:
        case By.NODE:
            return node_table(found.nodes)
        case By.ROUND:
            return round_table(found.rounds)
        case _:
            return run_table(found.runs)
