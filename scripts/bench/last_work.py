#!/usr/bin/env python3
"""How soon nodes are done after the last round: scripts/bench/last_work.py [--nodes 16 64 128 256].

D-PSGD on digits over plain loopback (engine `none`), models tried in the background: seconds, by the journals, that all
nodes need for the last round and what is left of evaluation after it (a round is journalled when all that belongs to it
is done), beside the longest of the rounds before. A figure means something on an otherwise idle machine only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

NODES = (16, 64, 128, 256)
ROUNDS = 10
TOPOLOGY = (
    "services: {{n: {{replicas: {nodes}}}}}\nbridges: [r]\nlinks: [{{from: n, to: r, latency: 0ms, rate: 10Gbps}}]\n"
)


def measured(nodes: int, folder: Path) -> dict[str, float]:
    topology = folder / f"{nodes}.yaml"
    topology.write_text(TOPOLOGY.format(nodes=nodes))
    words = [sys.executable, "-m", "testbed", "deploy", str(topology), "--runtime", "local", "--engine", "none"]
    words += ["--data", "digits", "--rounds", str(ROUNDS), "--set", "compute.ms_per_step=auto", "--quiet", "--force"]
    words += ["--set", "evaluation.every=5", "--run-id", f"n{nodes}", "--results", str(folder)]
    subprocess.run(words, check=False)
    journals = [path.read_text().splitlines() for path in (folder / f"n{nodes}" / "nodes").glob("*/journal.jsonl")]
    told = [[json.loads(line) for line in lines] for lines in journals]
    ended = [each["t"] for records in told for each in records if each["type"] == "end"]
    last_of = [
        max(each["t"] for records in told for each in records if each["type"] == "round" and each["round"] == number)
        for number in range(ROUNDS)
    ]
    longest = max(after - before for before, after in pairwise(last_of[:-1]))
    return {"nodes": nodes, "ended": len(ended), "longest_round_s": longest, "last_s": max(ended) - last_of[-2]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="testbed-bench-") as folder:
        for nodes in given.nodes:
            print(json.dumps(measured(nodes, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
