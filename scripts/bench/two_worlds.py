#!/usr/bin/env python3
"""Whether virtual time and real processes learn the same: scripts/bench/two_worlds.py [ALGORITHM …] [--seeds 5].

wan16 learns digits for 30 s of emulated time; a quarter of the nodes take four times as long for a step. For each
algorithm: the mean final accuracy over the seeds in both runtimes, their difference, the spread (standard deviation)
over the seeds, rounds of the median node, and how many of the real runs were valid. Without names, all algorithms.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from statistics import mean, pstdev

from tables import Row, as_markdown, load

from testbed.catalogue.algorithms import ALGORITHMS

_OVERLOADED = 7
SETTINGS = (
    *("stop.time=30s", "compute.ms_per_step=50", "compute.factors=[{share: 0.25, factor: 4}]"),
    *("evaluation.every=10", "evaluation.mode=after", "data.name=digits", "training.lr=0.1"),
)
MORE = {"parameter-server": ("algorithm.mode=async", "training.lr=0.02")}
"""One gradient of 12 workers at a time takes as many steps."""


def accuracy(algorithm: str, runtime: str, seed: int) -> tuple[float, bool]:
    """Mean final accuracy of a run, and whether it was valid."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        settings = [*SETTINGS, *MORE.get(algorithm, ()), f"seed={seed}"]
        words = [word for each in settings for word in ("--set", each)]
        testbed = (sys.executable, "-m", "testbed")
        command = [
            *(*testbed, "deploy", "topologies/wan16.xml", "--algorithm", algorithm),
            *("--runtime", runtime, "--results", folder, "--run-id", "bench", "--quiet", *words),
        ]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if done.returncode not in (0, _OVERLOADED):
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
        collect = [*testbed, "collect", f"{folder}/bench", "--format", "json"]
        summary = subprocess.run(collect, stdout=subprocess.PIPE, text=True, check=True).stdout
        (run,) = json.loads(summary)["runs"]
        return run["accuracy"]["mean"], done.returncode == 0


def compared(algorithm: str, seeds: Sequence[int]) -> Row:
    found = {runtime: [accuracy(algorithm, runtime, seed) for seed in seeds] for runtime in ("sim", "local")}
    means = {runtime: mean(value for value, _ in each) for runtime, each in found.items()}
    return {
        "algorithm": algorithm,
        **{
            f"{runtime}": f"{means[runtime]:.3f} ± {pstdev(value for value, _ in each):.3f}"
            for runtime, each in found.items()
        },
        "difference": f"{means['local'] - means['sim']:+.3f}",
        "valid": f"{sum(valid for _, valid in found['local'])} of {len(seeds)}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("algorithms", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    rows = []
    for algorithm in chosen.algorithms or ALGORITHMS:
        rows.append(compared(algorithm, range(1, chosen.seeds + 1)))
        print(rows[-1], load(), file=sys.stderr, flush=True)
    print(as_markdown(rows))


if __name__ == "__main__":
    main()
