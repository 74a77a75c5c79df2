"""The example of an algorithm of one's own, baked into an image and run in containers, as its README says it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.image.engine_client import connected
from tests.docker.runs import PATIENCE_S, environment, words
from tests.image.engine import EXAMPLE

ROOT = EXAMPLE.parents[1]
DONE = (0, 7)
TAG = f"testbed:test-example-{os.getpid()}"
"""The README's own name is the user's: nothing here may take it."""
ROUNDS = 3


@pytest.fixture
def tag(image: str) -> Iterator[str]:  # noqa: ARG001 - its layers are there
    """The name of an image that a test makes."""
    yield TAG
    with connected() as engine:
        if engine.images.list(TAG):
            engine.api.remove_image(TAG)


def said_in_the_readme() -> list[list[str]]:
    """Its commands about containers, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (EXAMPLE / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks[1:] for line in block.splitlines()]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words(*command),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def test_its_readme_from_beginning_to_end(tmp_path: Path, tag: str) -> None:
    build, deploy, collect = said_in_the_readme()
    built = run([*build, "--tag", tag])
    assert built.returncode == 0, built.stderr

    small = ["--set", f"stop.rounds={ROUNDS}", "--set", "compute.ms_per_step=20", "--force"]
    ended = run([*deploy, "--image", tag, "--results", str(tmp_path), *small])
    assert ended.returncode in DONE, ended.stderr
    assert "warning: the testbed in the image" not in ended.stderr
    assert "fresh_gossip.py" not in ended.stderr, "no doubt about what is in the image"

    plan = json.loads((tmp_path / "mine" / "plan.json").read_text())
    assert plan["runtime"] == "docker"
    assert plan["experiment"]["algorithm"]["name"].endswith("fresh_gossip.py:FreshGossip")
    journals = sorted((tmp_path / "mine" / "nodes").glob("*/journal.jsonl"))
    assert len(journals) == 4
    records = [json.loads(line) for path in journals for line in path.read_text().splitlines()]
    rounds = [each for each in records if each["type"] == "round"]
    assert sorted(each["round"] for each in rounds) == sorted([*range(ROUNDS)] * 4)
    assert sum(each["aggregated"] for each in rounds) > 0, "some nodes have mixed in received models"
    assert [each["reason"] for each in records if each["type"] == "end"] == ["finished"] * 4

    told = run([*collect[:-1], str(tmp_path / "mine")])
    assert told.returncode == 0, told.stderr
    assert "docker" in told.stdout
