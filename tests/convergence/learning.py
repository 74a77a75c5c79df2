"""Runs of 32 learners that see two classes each, and what `testbed collect` says of them."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from testbed.collect.run import collect_run
from testbed.collect.summary import RunSummary, summarise
from tests.runtimes.sim_runs import plan_of, run, star

NODES = 32
DEGREE = 5
FIRST_SEED = int(os.environ.get("TESTBED_TEST_FIRST_SEED", "1"))
"""`scripts/soak seeds` tries others."""
SEEDS = (FIRST_SEED, FIRST_SEED + 1)

OVERLAYS: dict[str, Any] = {
    "ring": "ring",
    "regular": {"kind": "regular", "degree": DEGREE},
    "dynamic": {"kind": "regular", "degree": DEGREE, "dynamic": True},
    "full": "full",
}
TRAINING = {"lr": 0.1, "batch": 8, "steps": 5}


def learned(
    *, seeds: tuple[int, ...] = SEEDS, rate: str = "20Mbps", target: float | None = None, **settings: Any
) -> list[RunSummary]:
    """One summary a seed."""
    found = []
    for seed in seeds:
        plan = plan_of(star(NODES, rate=rate), **{"training": TRAINING, "seed": seed, **settings})
        with TemporaryDirectory() as folder:
            directory, outcome = run(plan, Path(folder), workers=min(2, os.cpu_count() or 1))
            assert outcome.reason == "finished", outcome
            summary = summarise(collect_run(directory), target)
        assert summary.complete, summary.problems
        found.append(summary)
    return found


def accuracy(summaries: list[RunSummary]) -> float:
    """Mean over seeds of the mean over nodes, each with a model of its own."""
    return mean(summary.accuracy.mean for summary in summaries if summary.accuracy.mean is not None)


def consensus_distance(summaries: list[RunSummary]) -> float:
    return mean(summary.consensus_distance for summary in summaries if summary.consensus_distance is not None)


def payload(summaries: list[RunSummary]) -> int:
    """Sent in all runs together."""
    return sum(summary.bytes.payload_sent or 0 for summary in summaries)
