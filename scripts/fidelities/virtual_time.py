"""The same plan in `sim` and in `local`: the emulated time of a round in both.

Takes cases, gives rows, as a table or JSON; runs them in folders of their own.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fidelities.cases import CASES, Case
from testbed.collect.run import collect_run
from testbed.plan.files import write_plan
from testbed.rundir import RunDirectory, create_run
from testbed.runtimes.processes.local_backend import LocalBackend
from testbed.runtimes.processes.run import RealRun
from testbed.runtimes.sim.prepare import prepared
from testbed.runtimes.sim.run import SimRun

TRIES = 4
"""Of a run that was overloaded."""
SIM_SEEDS = 5
Tell = Callable[[str], None]


class Failed(Exception):
    """A run that did not come to its end."""


@dataclass(frozen=True)
class Rounds:
    """Emulated seconds of the rounds of one run or several: each the mean over nodes."""

    first_s: float
    """With the handshakes, apart from the others."""
    median_s: float
    mean_s: float
    overloaded: tuple[str, ...] = ()
    measured_on: str = ""
    load: float = 0.0
    """Of the machine when it had been measured: how many processes wanted to run."""


@dataclass(frozen=True)
class Row:
    """One case as it came out."""

    case: Case
    sim: Rounds
    local: Rounds

    @property
    def off(self) -> float:
        """How much longer a round in `sim` is."""
        return self.sim.median_s / self.local.median_s - 1.0

    @property
    def holds(self) -> bool:
        return abs(self.off) <= self.case.gate


def round_times(directory: RunDirectory) -> list[float]:
    """Of every round the mean over nodes; the first round counts from the start."""
    lengths: dict[int, list[float]] = {}
    for node in collect_run(directory).learners:
        for number, length_s in zip(node.rounds.number, node.rounds.duration_s, strict=True):
            lengths.setdefault(int(number), []).append(float(length_s))
    return [statistics.fmean(lengths[number]) for number in sorted(lengths)]


def in_sim(case: Case, seed: int, folder: Path) -> list[float]:
    plan = case.plan(seed)
    directory = create_run(folder, f"{'-'.join(case.words)}-{seed}-sim")
    write_plan(directory, plan)
    with prepared(plan, workers=0) as shared:
        SimRun(plan, directory, shared).run()
    return round_times(directory)


def in_local(case: Case, seed: int, folder: Path, tell: Tell, most: int) -> tuple[list[float], tuple[str, ...]]:
    """With what made the run overloaded, after so many tries; of those the one that was nearest to being valid."""
    tries = []
    for attempt in range(1, most + 1):
        plan = case.plan(seed).model_copy(update={"runtime": "local", "engine": "fabric"})
        directory = create_run(folder, f"{'-'.join(case.words)}-{seed}-local-{attempt}")
        write_plan(directory, plan)
        outcome = RealRun(plan, directory, LocalBackend()).run()
        if outcome.reason != "finished":
            raise Failed(f"the run in {directory.path} ended: {outcome.reason}")
        if not outcome.overloaded:
            return round_times(directory), ()
        tell(f"overloaded: {outcome.overloaded[0]}")
        summary = json.loads((directory.path / "summary.json").read_bytes())
        is_slow = summary["computing"]["late"] > 0.05 * summary["computing"]["works"]
        tries.append((is_slow, summary["lateness"]["p99_ms"], round_times(directory), outcome.overloaded))
    *_, times, why = min(tries)
    return times, why


def summed_up(runs: Sequence[list[float]], why: tuple[str, ...] = ()) -> Rounds:
    later = [length_s for times in runs for length_s in times[1:]]
    return Rounds(
        round(statistics.median(times[0] for times in runs), 5),
        round(statistics.median(later), 5),
        round(statistics.fmean(later), 5),
        why,
    )


def run(case: Case, folder: Path, measured: Rounds | None, seeds: Sequence[int], tell: Tell, tries: int = TRIES) -> Row:
    """Both worlds, unless one was measured earlier."""
    sim_seeds = range(1, SIM_SEEDS + 1) if case.loss else (1,)
    sim = summed_up([in_sim(case, seed, folder) for seed in sim_seeds])
    tell(f"sim: {sim.median_s:.4f} s")
    if measured is None:
        runs: list[list[float]] = []
        why: list[str] = []
        for seed in seeds if case.loss else (1,):
            times, overloaded = in_local(case, seed, folder, tell, tries)
            tell(f"local: {statistics.median(times[1:]):.4f} s")
            runs.append(times)
            why += overloaded
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        measured = replace(summed_up(runs, tuple(why)), measured_on=today, load=round(os.getloadavg()[0], 1))
    return Row(case, sim, measured)


COLUMNS = ("message", "round trip", "kind", "links", "nodes", "TCP", "fitted")


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    head = (*COLUMNS, "first round, local / sim", "round, local / sim", "mean, local / sim", "off", "gate")
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for row in rows:
        pairs = (
            f"{_seconds(getattr(row.local, key))} / {_seconds(getattr(row.sim, key))}"
            for key in ("first_s", "median_s", "mean_s")
        )
        kind = f"{row.case.loss:.2%} loss" if row.case.loss else "loss-free"
        words = (*row.case.words[:2], kind, *row.case.words[3:], "yes" if row.case.is_fitted else "no")
        verdict = (
            f"{row.case.gate:.0%}"
            + ("" if row.holds else " missed")
            + (" (overloaded)" if row.local.overloaded else "")
        )
        lines.append(" | ".join((*words, *pairs, f"{row.off:+.1%}", verdict)))
    return "\n".join(f"| {line} |" for line in lines)


def _seconds(value: float) -> str:
    return f"{value:.4f}" if value < 1 else f"{value:.2f}"


def document(rows: Iterable[Row]) -> str:
    """JSON; `--measured` and `--output` read it again."""
    found = {
        "machine": f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}",
        "rows": [
            {**asdict(row), "words": row.case.words, "off": round(row.off, 4), "holds": row.holds} for row in rows
        ],
    }
    return json.dumps(found, indent=1)


Rows = dict[tuple[str, ...], Row]
"""By the words of the case."""


def read_rows(files: Sequence[Path]) -> Rows:
    """What earlier calls found, of the cases that there still are; of one in several files the last."""
    found: Rows = {}
    by_words = {case.words: case for case in CASES}
    for file in files:
        for row in json.loads(file.read_text())["rows"]:
            words = tuple(row["words"])
            if words in by_words:
                found[words] = Row(by_words[words], _rounds(row["sim"]), _rounds(row["local"]))
    return found


def _rounds(told: dict[str, object]) -> Rounds:
    return Rounds(**{**told, "overloaded": tuple(told.get("overloaded", ()))})  # type: ignore[arg-type]


def merged(rows: Rows, new: Row) -> Rows:
    """With the new row in it, in the order of `CASES`; a valid run in `local` is replaced by a valid one only."""
    old = rows.get(new.case.words)
    keeps = old is not None and new.local.overloaded and not old.local.overloaded
    rows = {**rows, new.case.words: replace(new, local=old.local) if old is not None and keeps else new}
    return {case.words: rows[case.words] for case in CASES if case.words in rows}


def write_whole(path: Path, text: str) -> None:
    """The file is never half written, whenever this is interrupted."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text)
    beside.replace(path)
