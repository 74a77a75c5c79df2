#!/usr/bin/env python3
"""How long `testbed render --target compose` takes for a large topology, and how large its file is.

Renders a bundled topology into a temporary folder with the command, in a process of its own, several times: the median
of wall-clock and of processor seconds, start included, and of how long an interpreter takes that only loads the
command. Prints JSON. Needs the package installed (`./scripts/quickstart`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = "from testbed.cli.main import main; main()"


def seconds(*words: str) -> tuple[float, float]:
    """Wall-clock and processor time of the command."""
    began, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-c", COMMAND, *words], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, spent


def medians(runs: list[tuple[float, float]]) -> dict[str, float]:
    """Medians of wall-clock and processor time, to hundredths of a second."""
    wall_s, processor_s = (round(statistics.median(each), 2) for each in zip(*runs, strict=True))
    return {"wall_s": wall_s, "processor_s": processor_s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="wan1024", help="a bundled one  [default: wan1024]")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="testbed-bench-") as name:
        words = ("render", options.topology, "--target", "compose", "--quiet", "-o", name)
        found = medians([seconds(*words) for _ in range(options.times)])
        start = medians([seconds("render", "--help") for _ in range(options.times)])
        sizes = {path.name: path.stat().st_size for path in sorted(Path(name).iterdir())}
    print(json.dumps({"topology": options.topology, "render": found, "start": start, "file_bytes": sizes}, indent=2))


if __name__ == "__main__":
    main()
