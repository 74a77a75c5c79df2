"""What `render --target compose` writes is started by Compose alone, without this program on the host."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docker.runs import command, until

ROOT = Path(__file__).parents[2]
A_USER = 1234


class Composed:
    """The run of the repository's own file, in a folder."""

    def __init__(self, compose: str, folder: Path, image: str, user: int) -> None:
        self.results = folder / "results"
        self._compose, self._folder = compose, folder
        self._environment = {
            **os.environ,
            "TESTBED_IMAGE": image,
            "TESTBED_UID": str(user),
            "TESTBED_GID": str(user),
            "COMPOSE_PROJECT_NAME": f"testbed-test-{os.getpid()}",
        }

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._compose, *words],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.results / "lan4" / "summary.json").read_text())
        return found


@pytest.fixture
def user() -> int:
    return A_USER if os.getuid() == 0 else os.getuid()


@pytest.fixture
def composed(tmp_path: Path, image: str, user: int) -> Iterator[Composed]:
    compose = shutil.which("docker-compose")
    if compose is None:
        pytest.skip("there is no docker-compose here")
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    run = Composed(compose, tmp_path, image, user)
    run.results.mkdir()
    if os.getuid() == 0:
        os.chown(run.results, user, user)
    try:
        yield run
    finally:
        run("down", "--volumes")


def test_the_file_at_the_root_runs_by_itself(composed: Composed, user: int) -> None:
    ended = composed("--no-ansi", "up", "--no-color")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = composed.summary()
    assert (told["reason"], told["finished"], told["failed"], told["broken"]) == ("finished", 4, [], [])
    assert {path.lstat().st_uid for path in composed.results.rglob("*")} == {user}


def test_while_it_goes_on_only_compose_ends_it_and_then_it_is_interrupted(composed: Composed, tmp_path: Path) -> None:
    file = tmp_path / "docker-compose.yml"
    file.write_text(file.read_text().replace('"--data", "digits"', '"--data", "digits", "--rounds", "5000"'))
    assert composed("up", "--detach").returncode == 0
    until(_a_round_is_done(composed.results / "lan4"))
    refused = command(tmp_path, "destroy", "lan4", "--force")  # root, and it is another user's
    assert (refused.returncode, "docker compose down" in refused.stderr) == (4, True), refused.stderr
    assert composed("stop").returncode == 0
    told = composed.summary()
    assert (told["reason"], told["failed"], told["broken"]) == ("interrupted", [], [])
    assert command(tmp_path, "destroy", "lan4", "--force").returncode == 0


def _a_round_is_done(run: Path) -> Callable[[], bool]:
    journals = [run / "nodes" / f"node.{rank}" / "journal.jsonl" for rank in range(4)]
    return lambda: all(each.exists() and '"type":"round"' in each.read_text() for each in journals)
