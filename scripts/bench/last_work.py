#!/usr/bin/env python3
"""How soon nodes are done after the last round: scripts/bench/last_work.py [--nodes 16 64 128 256].

D-PSGD on digits over plain loopback (engine `none`), models tried in the background: seconds of real time from the last
node's last round to the end of the run's last node, by their journals. Evaluation that is left over is part of it, and
is told by how many models were tried after the last round. A figure means something on an otherwise idle machine only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
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
    last_rounds, ends, after = [], [], 0
    journals = [path.read_text().splitlines() for path in (folder / f"n{nodes}" / "nodes").glob("*/journal.jsonl")]
    told = [[json.loads(line) for line in lines] for lines in journals]
    last = max(each["t"] for records in told for each in records if each["type"] == "round")
    for records in told:
        last_rounds += [each["t"] for each in records if each["type"] == "round"]
        ends += [each["t"] for each in records if each["type"] == "end"]
        after += sum(each["type"] == "evaluation" and each["t"] > last for each in records)
    return {"nodes": nodes, "ended": len(ends), "seconds": max(ends) - last, "tried after": after}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="testbed-bench-") as folder:
        for nodes in given.nodes:
            print(json.dumps(measured(nodes, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
