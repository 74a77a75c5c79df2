"""Runs whose learners misbehave: their image, how they are deployed, and what they have left."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import TestbedError
from testbed.image.build import Request, build_image
from tests.docker.runs import PATIENCE_S, environment
from tests.image.engine import REQUIRED, need_engine

TAG = "testbed:test-hostile"
CODE = Path(__file__).parent / "hostile"
EXPERIMENT = """
topology: {topology}
algorithm: {{name: "{code}:Hostile", options: {options}}}
data: {{name: digits}}
compute: {{ms_per_step: 20}}
evaluation: {{every: 1}}
overlay: {{kind: full}}
stop: {{rounds: {rounds}}}
"""


def need_hostile_image() -> str:
    """Its tag; skips where there is no Engine or no image can be built."""
    need_engine()
    files = tuple(sorted(each for each in CODE.glob("*.py") if each.name != "__init__.py"))
    lock = Path(tempfile.gettempdir()) / f"testbed-test-hostile-{os.getuid()}.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            build_image(Request(tag=TAG, algorithms=files), lambda _: None, lambda _: None)
        except TestbedError as problem:
            if os.environ.get(REQUIRED):
                raise
            pytest.skip(f"the image cannot be built here: {problem.message}")
    return TAG


def write_experiment(folder: Path, services: Iterable[str], rounds: int, **told: object) -> Path:
    """One node of each service, all neighbours of all others."""
    topology = folder / f"{rounds}.topology.yaml"
    names = json.dumps({name: {} for name in services}, ensure_ascii=False)
    links = [{"from": name, "to": "r", "latency": "5ms", "rate": "20Mbps"} for name in services]
    topology.write_text(f"services: {names}\nbridges: [r]\nlinks: {json.dumps(links, ensure_ascii=False)}\n")
    file = folder / f"{rounds}.experiment.yaml"
    code = CODE / "hostile.py"
    file.write_text(
        EXPERIMENT.format(topology=json.dumps(str(topology)), code=code, options=json.dumps(told), rounds=rounds)
    )
    return file


def deploy_words(file: Path, run_id: str, image: str) -> list[str]:
    return ["deploy", str(file), "--runtime", "docker", "--image", image, "--run-id", run_id, "--quiet", "--force"]


def finished(folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def lines(path: Path) -> list[dict[str, Any]]:
    """Of a journal, or of control's log; those that are torn are left out, as the run goes on."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def events(run: Path, what: str) -> list[dict[str, Any]]:
    """In control's log."""
    return [each for each in lines(run / "events.jsonl") if each["type"] == "event" and each["what"] == what]


def notes(run: Path, node: str, what: str) -> list[str]:
    """In a node's journal."""
    found = lines(run / "nodes" / node / "journal.jsonl")
    return [each["detail"] for each in found if each["type"] == "event" and each["what"] == what]
