"""One run of `testbed deploy`, measured from outside.

Takes the command's words, gives a row of figures; starts the command, with a results folder that is removed afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from tables import Row
from watched_run import WatchedRun

from testbed.rundir import RunDirectory

_LOOK_S = 0.1
_OVERLOADED = 7


def measure(topology: str, runtime: str, words: Sequence[str], rounds: int, captured: int = 0) -> Row:
    """Figures of one run; an overloaded run counts. `captured` nodes' packets are captured for a round."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        command = [
            *(sys.executable, "-m", "testbed", "deploy", topology, "--runtime", runtime, "--rounds", str(rounds)),
            *("--run-id", "bench", "--results", str(folder), "--quiet", "--format", "json", *words),
        ]
        run = RunDirectory(folder / "bench")
        began_s = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            watched = WatchedRun(run, process.pid, rounds, captured, in_containers=runtime == "docker")
            while process.poll() is None:
                watched.look()
                time.sleep(_LOOK_S)
            wall_s = time.monotonic() - began_s
            text = process.stdout.read() if process.stdout is not None else ""
        if process.returncode not in (0, _OVERLOADED):
            raise SystemExit(f"the run ended with {process.returncode}")
        return _told(run, json.loads(text), wall_s) | watched.figures()


def _told(run: RunDirectory, summary: dict[str, Any], wall_s: float) -> Row:
    """What the run says of itself."""
    nodes, scale = summary["finished"], summary["time_scale"]
    told: Row = {
        "nodes": nodes,
        "verdict": summary["health"],
        "why": "; ".join(summary["why"]),
        "wall_s": round(wall_s, 1),
        # What the command needs before and after the run proper belongs to it too.
        "ready_s": round(wall_s - summary["real_s"] + (summary["ready_s"] or 0.0), 2),
    }
    rounds = [[each["t"] * scale for each in records if each["type"] == "round"] for records in _journals(run)]
    count = len(rounds[0])
    if summary["lateness"] is None and summary["ready_s"] is None:  # virtual time
        return told | _speed(nodes, count, summary["real_s"])
    begun_ms = [1000 * scale * records[0]["t"] for records in _journals(run)]
    lateness = summary["lateness"] or {}
    # From the end of the slowest node's first round to that of the slowest one's last.
    steady_s = max(each[-1] for each in rounds) - max(each[0] for each in rounds)
    return {
        **told,
        **_speed(nodes, count - 1, steady_s),
        "time_scale": scale,
        "ms_per_step": summary["setting"]["ms_per_step"],
        "begun_p50_ms": round(median(begun_ms), 1),
        "begun_max_ms": round(max(begun_ms), 1),
        "late_p50_ms": lateness.get("p50_ms"),
        "late_p99_ms": lateness.get("p99_ms"),
    }


def _speed(nodes: int, rounds: int, real_s: float) -> Row:
    return {"round_s": round(real_s / rounds, 3), "node_rounds_per_s": round(nodes * rounds / real_s, 1)}


def _journals(run: RunDirectory) -> Iterator[list[dict[str, Any]]]:
    """All records of every node."""
    for name in run.node_names():
        yield [msgspec.json.decode(line) for line in run.node(name).journal.read_bytes().splitlines()]
