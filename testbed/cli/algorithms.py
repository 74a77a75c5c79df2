"""`testbed algorithms`: compares the built-in algorithms, or describes one with its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from testbed.cli.output import Cell, Format, format_option, print_csv, print_json, print_table

if TYPE_CHECKING:
    from testbed.catalogue.algorithm_facts import AlgorithmFacts
    from testbed.catalogue.options import Option


@click.command()
@click.argument("name", required=False)
@click.option("--learners", type=click.IntRange(min=1), help="Count the messages of a round for so many; 16.")
@click.option("--degree", type=click.IntRange(min=0), help="With so many neighbours or recipients each; 5.")
@format_option
def command(name: str | None, learners: int | None, degree: int | None, output_format: Format) -> None:
    """Compare the built-in algorithms: what they wait for, send, remember and lose; or describe NAME.

    Messages are those of one learner in a round, as a mean, with default options.

    \b
    Example:
      testbed algorithms
      testbed algorithms epidemic
      testbed algorithms --learners 60 --degree 6 --format json
    """
    from testbed.catalogue.algorithm_table import COLUMNS, USUAL_DEGREE, USUAL_LEARNERS, comparison
    from testbed.catalogue.algorithms import ALGORITHMS
    from testbed.errors import UsageProblem, did_you_mean

    if name is not None and name not in ALGORITHMS:
        raise UsageProblem(
            f"there is no algorithm called {name!r}",
            did_you_mean(name, ALGORITHMS) or "`testbed algorithms` shows all",
        )
    chosen = list(ALGORITHMS.values()) if name is None else [ALGORITHMS[name]]
    counted = learners or USUAL_LEARNERS, USUAL_DEGREE if degree is None else degree
    rows = comparison(chosen, *counted)
    match output_format:
        case Format.JSON:
            values = [_as_json(facts, *counted) for facts in chosen]
            print_json(values if name is None else values[0])
        case Format.CSV:
            print_csv((*COLUMNS, "options"), _with_options(rows, chosen))
        case Format.TABLE if name is None:
            least = (COLUMNS[-1], "options", "outbox", "remembers", "a crash costs", "waits for")
            shown = _with_options(rows, chosen)
            print_table((*COLUMNS, "options"), shown, least=least, wrapped=(*COLUMNS[1:], "options"))
        case Format.TABLE:
            described = [("summary", chosen[0].summary), *zip(COLUMNS[1:], rows[0][1:], strict=True)]
            print_table(("what", "value"), described)
            if chosen[0].options:
                print_table(("option", "default", "values", "meaning"), map(_option, chosen[0].options))


def _with_options(rows: Sequence[Sequence[str]], entries: Sequence[AlgorithmFacts]) -> list[list[Cell]]:
    """The rows with the names of options as their last cell."""
    return [
        [*row, ", ".join(option.name for option in facts.options)] for row, facts in zip(rows, entries, strict=True)
    ]


def _option(option: Option) -> list[Cell]:
    values = ", ".join(option.type) if isinstance(option.type, tuple) else option.type.name.lower().replace("_", " ")
    return [option.name, _default(option), values, option.help]


def _default(option: Option) -> str:
    if isinstance(option.default, bool):
        return str(option.default).lower()
    return "" if option.default is None else str(option.default)


def _as_json(facts: AlgorithmFacts, learners: int, degree: int) -> dict[str, object]:
    from testbed.catalogue.algorithm_table import usual_messages

    return {
        "name": facts.name,
        "summary": facts.summary,
        "published": asdict(facts.paper),
        "needs_server": facts.needs_server,
        "waits_for": facts.waits_for,
        "messages": [asdict(sort) for sort in usual_messages(facts, learners, degree)],
        "remembers": facts.remembers,
        "crash_costs": facts.crash_costs,
        "outbox": asdict(facts.outbox),
        "sharings": facts.sharings,
        "mutual": facts.mutual,
        "same_neighbours": facts.same_neighbours,
        "options": [
            {
                "name": option.name,
                "type": option.type if isinstance(option.type, tuple) else option.type.name.lower(),
                "default": option.default,
                "help": option.help,
            }
            for option in facts.options
        ],
    }
