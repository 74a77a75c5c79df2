"""The main job in containers: learners over an emulated network, and the table of what happened."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from testbed.image.engine_client import connected
from testbed.memory import available_bytes
from testbed.runtimes.docker.containers import FOLDER_LABEL
from tests.docker.runs import command, environment, words
from tests.image.engine import REQUIRED

NEEDED_BYTES = 300 * 2**20
PATIENCE_S = 280.0
ROUNDS = 2
QUICK = ("--rounds", str(ROUNDS), "--set", "compute.ms_per_step=20", "--set", "evaluation.every=2", "--force")


@pytest.mark.parametrize(("topology", "nodes"), [("lan4", 4), pytest.param("wan16", 16, marks=pytest.mark.soaked)])
def test_deploy_and_collect(topology: str, nodes: int, tmp_path: Path, image: str) -> None:
    """On a machine where no data set has been kept yet."""
    if available_bytes() < NEEDED_BYTES * nodes and not os.environ.get(REQUIRED):
        pytest.skip(f"{nodes} containers need more memory than is free here")
    chosen = ("--runtime", "docker", "--image", image, "--run-id", "r")
    deployed = subprocess.run(
        words("deploy", f"topologies/{topology}.xml", "--data", "digits", *QUICK, *chosen),
        cwd=tmp_path,
        env={**environment(), "TESTBED_DATA": "cache"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert deployed.returncode in (0, 7), deployed.stderr

    table = command(tmp_path, "collect", "results/")
    assert table.returncode == 0, table.stderr
    heading, *rows = [line.split() for line in table.stdout.splitlines() if line.strip()]
    assert {"run", "runtime"} <= set(heading)
    assert [row[0] for row in rows if "docker" in row] == ["r"]

    told = json.loads(command(tmp_path, "collect", "results/r", "--by", "node", "--format", "json").stdout)
    (run,) = told["runs"]
    assert (run["runtime"], run["rounds_least"], run["nodes"]["finished"]) == ("docker", ROUNDS, nodes)
    assert run["wall_clock_s"] > 0
    assert 0 < run["accuracy"]["mean"] <= 1
    assert len(told["nodes"]) == nodes
    assert all(node["payload_sent"] > 0 for node in told["nodes"])
    assert run["bytes"]["wire_sent"] > run["bytes"]["payload_sent"], "all of it went through the fabric"
    with connected() as engine:
        left = engine.api.containers(all=True, filters={"label": f"{FOLDER_LABEL}={tmp_path / 'results' / 'r'}"})
    assert left == []
