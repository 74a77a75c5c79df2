#!/usr/bin/env python3
"""How long `testbed collect` takes for the journals of a large run, and how much memory.

Writes a run of 1024 nodes with 2000 records each into a temporary folder, as nodes write them, and summarises it with
the command, in a process of its own: wall-clock seconds, start included, and the peak of its memory. For comparison,
in processes of their own and for a part of the same journals: `json.loads` of every line, and msgspec's decoding
without a schema; both only decode, and keep nothing. Prints JSON. Needs the package installed (`./scripts/quickstart`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from testbed.records import SCHEMA, AnyRecord, Build, Count, End, Evaluation, Phases, Round, Start, line
from testbed.rundir import RunDirectory, create_run

EVALUATIONS = 50
PAYLOAD, METADATA, DEGREE = 335_016, 74, 5
COMMAND = "from testbed.cli.main import main; main()"
BASELINES = {
    "json": "import json, sys\nfor path in sys.argv[1:]:\n    for line in open(path, 'rb'):\n        json.loads(line)",
    "msgspec": (
        "import msgspec, sys\ndecode = msgspec.json.Decoder().decode\n"
        "for path in sys.argv[1:]:\n    for line in open(path, 'rb'):\n        decode(line)"
    ),
}


def journal(rank: int, records: int) -> list[AnyRecord]:
    """What a node of D-PSGD on a 5-regular overlay writes."""
    draw = Random(rank)  # noqa: S311 - a benchmark's input, not a secret
    rounds = records - EVALUATIONS - 2
    each = Count(PAYLOAD * DEGREE, METADATA * DEGREE, 0, DEGREE)
    total = Count(each.payload * rounds, each.metadata * rounds, 0, DEGREE * rounds)
    build = Build("0.2.0", "2.13.0+cpu", "AVX2")
    t = 0.0
    written: list[AnyRecord] = [
        Start(0.0, SCHEMA, f"n.{rank}", rank, ("learner",), rank, 58, 83_754, "dpsgd", 1, build)
    ]
    due = 0
    for number in range(rounds):
        phases = Phases(draw.uniform(0.1, 0.3), 0.0, draw.uniform(0.2, 2.0), 0.001, 0.0)
        t += phases.train + phases.wait + phases.aggregate
        written.append(Round(t, number, draw.uniform(0.2, 2.3), phases, each, each, 5, DEGREE))
        if (number + 1) * EVALUATIONS // rounds > due:
            due += 1
            written.append(Evaluation(t, number, due / EVALUATIONS * draw.random(), draw.uniform(0.5, 2), 2000, "test"))
    written.append(End(t, "finished", rounds, 5 * rounds, total, total))
    return written


def write_run(folder: Path, nodes: int, records: int) -> RunDirectory:
    run = create_run(folder, "bench")
    for rank in range(nodes):
        node = run.node(f"n.{rank}")
        node.path.mkdir()
        node.journal.write_bytes(b"".join(line(record) for record in journal(rank, records)))
    plan = {
        "run_id": "bench",
        "seed": 1,
        "runtime": "sim",
        "engine": "none",
        "topology_name": "star",
        "experiment": {"algorithm": {"name": "dpsgd"}},
        "nodes": [{"name": f"n.{rank}", "rank": rank, "learner": rank} for rank in range(nodes)],
    }
    run.plan.write_text(json.dumps(plan))
    return run


def measured(command: list[str]) -> tuple[float, float, bytes]:
    """Seconds, peak MiB and output of a command that must succeed."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output)
        _pid, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{command[:4]} ended with {process.returncode}")
        output.seek(0)
        return seconds, usage.ru_maxrss / 1024, output.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1024)
    parser.add_argument("--records", type=int, default=2000, help="of every node")
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many runs counts")
    parser.add_argument("--part", type=int, default=16, help="compare with one journal in so many")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder), arguments.nodes, arguments.records)
        paths = [run.node(name).journal for name in run.node_names()]
        size = sum(path.stat().st_size for path in paths)
        collect = [sys.executable, "-c", COMMAND, "collect", str(run.path), "--format", "json", "--target", "0.3"]
        found = [measured(collect) for _ in range(arguments.repeat)]
        seconds, peak_mib = min(each[0] for each in found), max(each[1] for each in found)
        (summary,) = json.loads(found[0][2])["runs"]
        rounds = arguments.records - EVALUATIONS - 2
        expected = rounds * arguments.nodes * PAYLOAD * DEGREE
        assert summary["bytes"]["payload_sent"] == expected
        assert summary["rounds"] == rounds and summary["nodes"]["finished"] == arguments.nodes  # noqa: PT018
        part = [str(path) for path in paths[:: arguments.part]]
        scale = len(paths) / len(part)
        result = {
            "journals": arguments.nodes,
            "records": arguments.records,
            "mib": round(size / 2**20),
            "seconds": round(seconds, 2),
            "peak_mib": round(peak_mib),
        }
        for name, program in BASELINES.items():
            baseline = measured([sys.executable, "-c", program, *part])[0] * scale
            result[f"{name}_seconds"] = round(baseline, 2)
            result[f"{name}_takes_times"] = round(baseline / seconds, 2)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
