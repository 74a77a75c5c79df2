"""`testbed verify` of a run of containers that goes on: what is asked of it is found, and what is not is found out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.cli.run_target import live_run
from testbed.rundir import RunDirectory
from testbed.runtimes.docker.live import pids_of_nodes
from testbed.runtimes.enter import has_network
from testbed.verify.judge import Verdict
from testbed.verify.live import find_live, measure_live
from tests.docker.runs import QUICK, command, containers, until

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root may enter the networks of containers"),
    pytest.mark.alone,
]
TOPOLOGY = """
services: {a: {replicas: 2}, b: {replicas: 3}}
bridges: [r]
links:
  - {from: a, to: r, latency: 10ms, rate: 20Mbps}
  - {from: b, to: r, latency: 20ms, rate: 20Mbps, loss: 2%}
"""
_PROBES = 40


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, image: str) -> Iterator[RunDirectory]:
    """It goes on; its last node has left, though its container is still there."""
    folder = tmp_path_factory.mktemp("verify")
    (folder / "net.yaml").write_text(TOPOLOGY)
    chosen = ("--runtime", "docker", "--image", image, "--rounds", "5000", "--run-id", "r", "--detach")
    try:
        begun = command(folder, "deploy", "net.yaml", *QUICK, *chosen)
        assert begun.returncode == 0, begun.stderr
        left = command(folder, "fault", "leave", "r", "b.2")
        assert left.returncode == 0, left.stderr
        going = RunDirectory(folder / "results" / "r")
        until(lambda: not has_network(pids_of_nodes(going)[4]))  # it sends its last before it goes
        yield going
    finally:
        command(folder, "destroy", "r")


def folder_of(run: RunDirectory) -> Path:
    return run.path.parent.parent


def in_network_of(pid: int) -> set[int]:
    """All processes of this machine that have the same network."""
    own = os.stat(f"/proc/{pid}/ns/net").st_ino
    found = set()
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                if os.stat(each / "ns" / "net").st_ino == own:
                    found.add(int(each.name))
            except OSError:
                continue
    return found


def test_what_is_asked_for_is_found(run: RunDirectory) -> None:
    changed = command(folder_of(run), "link", "set", "r", "a.0", "r", "--latency", "25ms")
    assert changed.returncode == 0, changed.stderr
    pids = pids_of_nodes(run)
    assert len(pids) == 5, "the container of the node that left is still there"
    before = {rank: in_network_of(pid) for rank, pid in pids.items()}
    pairs, found = measure_live(find_live(live_run(run), pids), 6, 1, lambda _: None, probes=_PROBES)
    assert {rank: in_network_of(pid) for rank, pid in pids.items()} == before, "probes are gone"
    assert {rank for pair in pairs for rank in (pair.origin, pair.dest)} == {0, 1, 2, 3}
    assert [row for row in found.rows if row.verdict is Verdict.WRONG] == []
    trips = {row.pair: row for row in found.rows if row.what == "round trip, least"}
    # What was set by hand is what is asked for now.
    assert {round(row.asked or 0.0) for pair, row in trips.items() if "a.0" in pair} <= {70, 90}
    assert {round(row.asked or 0.0) for pair, row in trips.items() if "a.0" not in pair} <= {60, 80}
    assert Verdict.OK in {row.verdict for row in trips.values()}


@pytest.mark.soaked
def test_what_was_not_asked_for_is_found_out(run: RunDirectory) -> None:
    """The fabric has read its configuration; another one is what seems to have been asked for since."""
    path = run.path / "runtime" / "fabric" / "fabric.json"
    true = path.read_bytes()
    config: dict[str, Any] = json.loads(true)
    for link in config["topology"]["links"]:
        link["latency"] = {"10ms": "13ms", "20ms": "14ms"}[link["latency"]]
        link["loss"] = "30%"
    path.write_text(json.dumps(config))
    try:
        told = command(folder_of(run), "verify", "r", "--pairs", "3", "--format", "json")
    finally:
        path.write_bytes(true)
    assert told.returncode == 7, told.stderr
    wrong = {row["what"] for row in json.loads(told.stdout)["measurements"] if row["verdict"] == "wrong"}
    assert {"round trip, least", "loss"} <= wrong


def test_whoever_has_left_is_not_in_the_network(run: RunDirectory) -> None:
    there = command(folder_of(run), "exec", "r", "b.2", "--", "true")
    assert there.returncode == 2
    assert "b.2 is not in the network now" in there.stderr
    assert len(containers(folder_of(run))) == 7
