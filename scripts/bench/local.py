#!/usr/bin/env python3
"""How fast runs of real processes are, and how much memory they need: scripts/bench/local.py [loopback] [wan].

loopback: D-PSGD, Fashion-MNIST, GN-LeNet for 28×28, batch 8, one local step a round, 5-regular overlay, plain loopback
          (engine `none`), evaluation off, as fast as it goes (`measured`); for every number of --nodes.
wan:      the default experiment on --topology (wan256) over the fabric, few rounds; --runtime docker: in containers.

Of both: seconds from the command to the start barrier; how long after the moment that this barrier sets the nodes have
begun, the median and the last one; rounds of all nodes a second, from the moment when the slowest
has done its first round; memory of a node (PSS); processor time of a node's process a round.

Of `loopback` also bare loops of the trainer, one step a round, on all cores, just before and after the run: the
processor time of a node's round without theirs, and the run's rounds a second divided by theirs. Of `wan` also how late
packets were, the time scale, and the run's health. A figure means something on an otherwise idle machine only;
processor times bear other work best.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from testbed.experiment.language import Experiment
from testbed.node.data.experiment_data import partition_data
from testbed.node.data.fetch import ensure
from testbed.node.trainer_of import make_trainer
from testbed.node.training_speed import bare_loops
from testbed.rundir import RunDirectory
from testbed.runtimes.docker.live import pids_of_nodes
from testbed.runtimes.tracking.process_records import read_record

NODES = (8, 16, 32, 64, 128, 256)
LOOPBACK_ROUNDS = 100
WAN_ROUNDS = 10
MOST_LOOKED_AT = 16
"""Processes whose memory is looked at: the kernel holds each up for some milliseconds meanwhile."""
BARE_STEPS = 600
"""Steps of the bare loops, about; each learner does at least a few."""
LOOPBACK = """
services:
  n: {{replicas: {nodes}}}
bridges: [r]
links: [{{from: n, to: r, latency: 0ms, rate: 10Gbps}}]
"""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
Row = dict[str, Any]


def measure(topology: str, runtime: str, arguments: Sequence[str], rounds: int, folder: Path) -> Row:
    """Measures one run of the command from outside."""
    words = [
        *(sys.executable, "-m", "testbed", "deploy", topology, "--runtime", runtime, "--rounds", str(rounds)),
        *("--run-id", "bench", "--results", str(folder), "--quiet", "--format", "json", *arguments),
    ]
    run = RunDirectory(folder / "bench")
    began_s = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        watched = Watched(run, rounds, in_containers=runtime == "docker")
        while process.poll() is None:
            watched.look()
            time.sleep(0.1)
        wall_s = time.monotonic() - began_s
        text = process.stdout.read() if process.stdout is not None else ""
    if process.returncode not in (0, 7):
        raise SystemExit(f"the run ended with {process.returncode}")
    summary = json.loads(text)
    nodes = summary["finished"]
    begun_ms = [round(1000 * summary["time_scale"] * records[0]["t"], 1) for records in journals(run)]
    return {
        "nodes": nodes,
        "rounds": rounds,
        # What the command needs before and after the run proper belongs to it too.
        "ready_s": round(wall_s - summary["real_s"] + summary["ready_s"], 2),
        "begun_p50_ms": round(median(begun_ms), 1),
        "begun_max_ms": max(begun_ms),
        "node_rounds_per_s": round(nodes * (rounds - 1) / _between(run, summary["time_scale"]), 1),
        "pss_mib": watched.pss_mib,
        "cpu_ms_per_node_round": watched.cpu_ms_per_node_round,
        "late_p50_ms": None if summary["lateness"] is None else summary["lateness"]["p50_ms"],
        "late_p99_ms": None if summary["lateness"] is None else summary["lateness"]["p99_ms"],
        "time_scale": summary["time_scale"],
        "health": summary["health"],
        "why": "; ".join(summary["why"]),
    }


class Watched:
    """Samples the nodes' processes twice: early, and late in the run, when their memory is measured as well."""

    def __init__(self, run: RunDirectory, rounds: int, *, in_containers: bool) -> None:
        self._run = run
        self._in_containers = in_containers
        self._early, self._late = max(1, rounds // 4), max(2, rounds * 3 // 4)
        self._first: tuple[int, float] | None = None
        self.pss_mib: float | None = None
        self.cpu_ms_per_node_round: float | None = None

    def look(self) -> None:
        if self.pss_mib is not None:
            return
        done = rounds_of(self._run.node(next(iter(self._run.node_names()), "")).journal) if self._started() else 0
        if done < (self._early if self._first is None else self._late):
            return
        pids = self._pids()
        if self._first is None:
            self._first = self._so_far(pids)
            return
        rounds, cpu_s = self._so_far(pids)
        if rounds > self._first[0]:
            self.cpu_ms_per_node_round = round((cpu_s - self._first[1]) / (rounds - self._first[0]) * 1000, 2)
        chosen = pids[:: max(1, len(pids) // MOST_LOOKED_AT)]
        found = [size for pid in chosen if (size := pss_kib(pid)) is not None]
        self.pss_mib = round(sum(found) / len(found) / 1024, 1) if found else None

    def _started(self) -> bool:
        return (self._run.path / "nodes").is_dir() and any(self._run.node_names())

    def _pids(self) -> list[int]:
        if self._in_containers:  # below their first processes
            return [each for first in pids_of_nodes(self._run).values() for each in children_of(first)]
        record = read_record(self._run)
        return [] if record is None else [each.pid for each in record.processes if each.name.startswith("node ")]

    def _so_far(self, pids: Sequence[int]) -> tuple[int, float]:
        """Rounds and processor seconds of all nodes."""
        rounds = sum(rounds_of(self._run.node(name).journal) for name in self._run.node_names())
        return rounds, sum(map(cpu_s_of, pids))


def children_of(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def rounds_of(journal: Path) -> int:
    try:
        return journal.read_bytes().count(b'"type":"round"')
    except OSError:
        return 0


def _between(run: RunDirectory, time_scale: float) -> float:
    """Real seconds from the end of the slowest node's first round to that of the slowest one's last."""
    first, last = 0.0, 0.0
    for records in journals(run):
        ends = [each["t"] for each in records if each["type"] == "round"]
        first, last = max(first, ends[0]), max(last, ends[-1])
    return (last - first) * time_scale


def journals(run: RunDirectory) -> Iterator[list[dict[str, Any]]]:
    """All records of every node."""
    for name in run.node_names():
        yield [msgspec.json.decode(line) for line in run.node(name).journal.read_bytes().splitlines()]


def pss_kib(pid: int) -> float | None:
    """The process's proportional share of memory."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith("Pss:")), None)


def cpu_s_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


SETTINGS: dict[str, dict[str, Any]] = {
    "algorithm": {"name": "dpsgd"},
    "overlay": {"kind": "regular", "degree": 5},
    "data": {"name": "fashion-mnist", "partition": {"kind": "iid"}},
    "model": {"name": "gn-lenet"},
    "training": {"batch": 8, "steps": 1, "lr": 0.05},
    "compute": {"mode": "measured"},
    "evaluation": {"mode": "none"},
}


def bare(nodes: int) -> tuple[float, float]:
    """The same training on all cores, and nothing else: steps a second, and processor milliseconds of a step."""
    experiment = Experiment.model_validate({"topology": "none", **SETTINGS})
    data = partition_data(experiment, nodes, seed=1)
    trainer = make_trainer(experiment, data.dataset, 1)
    rounds = max(4, BARE_STEPS // nodes)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    speed = bare_loops(trainer, data.parts, processes=os.cpu_count() or 1, rounds=rounds, steps=1)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return speed.steps_per_s, 1000 * taken_s / (nodes * (rounds + 1))  # one round is to warm up


def loopback(nodes: int, rounds: int) -> Row:
    before = bare(nodes)
    row = loopback_run(nodes, rounds)
    after = bare(nodes)
    steps_per_s, step_ms = ((then + now) / 2 for then, now in zip(before, after, strict=True))
    outside_ms = None if row["cpu_ms_per_node_round"] is None else round(row["cpu_ms_per_node_round"] - step_ms, 2)
    return {
        **row,
        "bare_step_cpu_ms": round(step_ms, 2),
        "outside_training_ms": outside_ms,
        "of_bare_loops": round(row["node_rounds_per_s"] / steps_per_s, 3),
        "bare_before_over_after": round(before[0] / after[0], 2),
    }


def loopback_run(nodes: int, rounds: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        topology = Path(folder) / "loopback.yaml"
        topology.write_text(LOOPBACK.format(nodes=nodes))
        chosen = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        return {
            "what": "loopback",
            **measure(str(topology), "local", ["--engine", "none", *chosen], rounds, Path(folder)),
        }


def wan(topology: str, runtime: str, rounds: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        return {"what": topology, **measure(topology, runtime, [], rounds, Path(folder))}


def print_rows(rows: Sequence[Row]) -> None:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    texts = [["" if row.get(column) is None else str(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for line in (columns, *texts):
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=["loopback", "wan", []], help="default: both")
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="of `loopback`")
    parser.add_argument("--topology", default="topologies/wan256.xml", help="of `wan`")
    parser.add_argument("--runtime", choices=["local", "docker"], default="local", help="of `wan`")
    parser.add_argument("--rounds", type=int, help="other than the figures are defined for")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    arguments = parser.parse_args()
    ensure("fashion-mnist", tell=lambda words: print(words, file=sys.stderr))
    which = arguments.which or ["loopback", "wan"]
    rows: list[Row] = []
    if "loopback" in which:
        for nodes in arguments.nodes:
            print(f"loopback, {nodes} nodes", file=sys.stderr)
            rows.append(loopback(nodes, arguments.rounds or LOOPBACK_ROUNDS))
    if "wan" in which:
        print(f"wan, {arguments.topology}", file=sys.stderr)
        rows.append(wan(arguments.topology, arguments.runtime, arguments.rounds or WAN_ROUNDS))
    if arguments.format == "json":
        print(json.dumps(rows, indent=2))
    else:
        print_rows(rows)


if __name__ == "__main__":
    main()
