#!/usr/bin/env python3
"""Whether a time scale changes what a run measures, and whether a dry run says beforehand what a round takes.

`scripts/bench/scales.py scales [--tries N]`: one loss-free topology with a fixed step and reno, at scales 1, 2 and 4 in
turns; the medians of the runs' median rounds, beside the spread of repeats at one scale.
`scripts/bench/scales.py dry-runs [TOPOLOGY…]`: what a dry run says a round takes, and what a run of that plan takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SCALES = (1, 2, 4)
TOPOLOGY = "wan16-loss-free.yaml"
FIXED = ("--data", "digits", "--set", "compute.ms_per_step=40", "--set", "network.congestion=reno")


def testbed(folder: Path, *words: str) -> str:
    """The output of a command; an overloaded run shows in its health, not in the exit code."""
    command = [sys.executable, "-m", "testbed", *words]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False).stdout


def deployed(folder: Path, name: str, *words: str) -> dict[str, Any]:
    """Deploys a run and returns `collect`'s summary of it."""
    testbed(folder, "deploy", *words, "--runtime", "local", "--run-id", name, "--quiet")
    (found,) = json.loads(testbed(folder, "collect", f"results/{name}", "--format", "json"))["runs"]
    return dict(found)


def scales(folder: Path, tries: int) -> None:
    described = testbed(folder, "generate", "regions", "--nodes", "16", "--loss", "0")
    (folder / TOPOLOGY).write_text(described)
    rounds: dict[int, list[float]] = {scale: [] for scale in SCALES}
    for number in range(tries):
        for scale in SCALES:
            words = (TOPOLOGY, *FIXED, "--rounds", "12", "--time-scale", str(scale))
            run = deployed(folder, f"scale-{scale}-{number}", *words)
            rounds[scale].append(run["round_s"]["median"])
            print(
                f"scale {scale}, run {number + 1}: {run['round_s']['median']:.4f} s a round, {run['health']}",
                flush=True,
            )
    for scale, found in rounds.items():
        middle = statistics.median(found)
        print(f"scale {scale}: {middle:.4f} s, repeats within {(max(found) - min(found)) / middle:.1%}")
    middles = [statistics.median(found) for found in rounds.values()]
    print(f"medians of scales within {(max(middles) - min(middles)) / min(middles):.1%} of each other")


def dry_runs(folder: Path, topologies: list[str], rounds: int) -> None:
    for name in topologies:
        words = (f"topologies/{name}.xml", "--rounds", str(rounds))
        run = deployed(folder, name, *words)
        plan = testbed(folder, "deploy", "--plan", f"results/{name}/plan.json", "--dry-run", "--format", "json")
        said_s, took_s = json.loads(plan)["estimate"]["total_s"] / rounds, run["wall_clock_s"] / rounds
        print(
            f"{name}: {said_s:.3f} s a round said, {took_s:.3f} taken ({said_s / took_s - 1:+.1%}); step "
            f"{run['ms_per_step']:g} ms, scale {run['time_scale']:g}, {run['congestion']}, {run['health']}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="what", required=True)
    verbs.add_parser("scales").add_argument("--tries", type=int, default=5)
    other = verbs.add_parser("dry-runs")
    other.add_argument("topologies", nargs="*", default=["wan16", "wan64"])
    other.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-scales-") as folder:
        if given.what == "scales":
            scales(Path(folder), given.tries)
        else:
            dry_runs(Path(folder), given.topologies, given.rounds)


if __name__ == "__main__":
    main()
