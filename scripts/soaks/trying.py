"""Runs the missing tries and reports the results of all; writes the file of tries."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from soaks.busy import kept_busy
from soaks.soak import Case, Soak
from soaks.tries import Conditions, Try, append, now, read


def attempted(soak: Soak, conditions: Conditions, tries: int, file: Path, say: Callable[[str], None]) -> list[Try]:
    """Runs every case `tries` times, in turns, so that a soak that stops early has some of each."""
    done = read(file, conditions)
    say(f"{soak.name} at {conditions.commit}: {len(done)} tries are in {file}")
    with kept_busy(conditions.busy):
        for number in range(tries):
            for case in soak.cases:
                if number < case.tries(tries) and not any(
                    (each.case, each.number) == (case.name, number) for each in done
                ):
                    one = _one(case, number, conditions)
                    append(file, one)
                    done.append(one)
                    place = f"{number + 1}/{case.tries(tries)}"
                    say(f"{case.name} {place}: {one.verdict}, {one.seconds:.0f} s, load {one.load}")
    return done


def _one(case: Case, number: int, conditions: Conditions) -> Try:
    date, load, began = now(), round(os.getloadavg()[0], 2), monotonic()
    with tempfile.TemporaryDirectory(prefix="testbed-soak-") as folder:
        verdict = case.attempt(Path(folder), number)
    return Try(
        soak=conditions.soak,
        case=case.name,
        number=number,
        commit=conditions.commit,
        date=date,
        busy=conditions.busy,
        load=load,
        seconds=round(monotonic() - began, 1),
        is_good=verdict.is_good,
        verdict=verdict.word,
        figures=verdict.figures,
    )


def table(soak: Soak, done: Sequence[Try], tries: int, busy: int) -> list[str]:
    """Markdown, to be copied into `docs/performance.md`."""
    lines = ["| case | good | tries | wanted | otherwise | seconds | load before |", "|---|---|---|---|---|---|---|"]
    for case in soak.cases:
        mine = [each for each in done if each.case == case.name]
        words = sorted({each.verdict for each in mine if not each.is_good})
        cells = (
            *(
                case.name,
                sum(each.is_good for each in mine),
                len(mine),
                f"{soak.wanted(case.tries(tries), busy)} of {case.tries(tries)}",
            ),
            *(", ".join(words) or "–", span([each.seconds for each in mine]), span([each.load for each in mine])),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def is_passed(soak: Soak, done: Sequence[Try], tries: int, busy: int) -> bool:
    """Whether every case was tried, and succeeded, often enough."""
    for case in soak.cases:
        mine = [each.is_good for each in done if each.case == case.name]
        if len(mine) < case.tries(tries) or sum(mine) < soak.wanted(len(mine), busy):
            return False
    return True


def span(values: Sequence[float]) -> str:
    """From the least to the most."""
    if not values:
        return "–"
    least, most = min(values), max(values)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"
