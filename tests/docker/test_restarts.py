"""A user wants a node back: what a Docker Engine is asked then. The contract shows that a real one does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.cli.fault import _restarts
from testbed.plan.files import write_plan
from testbed.rundir import create_run
from testbed.runtimes.docker import live
from testbed.runtimes.docker.containers import FOLDER_LABEL, RANK_LABEL
from testbed.runtimes.docker.live import allow_one_more
from testbed.runtimes.docker.runtime import _LiveContainers
from testbed.runtimes.processes.runtime import _LiveProcesses
from testbed.runtimes.tracking.process_records import RunRecord
from tests.runtimes.sim_runs import plan_of, star


class Played:
    """An Engine with containers of the nodes 0 to 2 of a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.policies: dict[str, dict[str, Any]] = {
            "0": {"Name": "no", "MaximumRetryCount": 0},
            "1": {"Name": "on-failure", "MaximumRetryCount": 2},
            "2": {"Name": "no", "MaximumRetryCount": 0},
        }

    def containers(self, *, filters: dict[str, list[str]]) -> list[dict[str, str]]:
        """Those that run."""
        folder, rank = filters["label"]
        assert folder == f"{FOLDER_LABEL}={self._folder}"
        name, _, number = rank.partition("=")
        assert name == RANK_LABEL
        return [{"Id": number}] if number in self.policies else []

    def inspect_container(self, id_: str) -> dict[str, Any]:
        return {"HostConfig": {"RestartPolicy": self.policies[id_]}}

    def update_container(self, id_: str, *, restart_policy: dict[str, Any]) -> None:
        self.policies[id_] = restart_policy


def test_each_is_started_again_once_more_than_before_and_nobody_else_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path, "run")
    played = Played(run.path)

    @contextmanager
    def connected(_timeout_s: float) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(api=played)

    monkeypatch.setattr(live, "connected", connected)
    assert allow_one_more(run, [0, 1, 7]) == {0: 1, 1: 3}
    assert allow_one_more(run, [0]) == {0: 2}
    assert played.policies == {
        "0": {"Name": "on-failure", "MaximumRetryCount": 2},
        "1": {"Name": "on-failure", "MaximumRetryCount": 3},
        "2": {"Name": "no", "MaximumRetryCount": 0},
    }


def test_without_an_engine_it_is_said_and_left_to_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    plan = plan_of(star(2))
    for runtime, live_of in (("docker", _LiveContainers), ("local", _LiveProcesses)):
        run = create_run(tmp_path, runtime)
        write_plan(run, plan.model_copy(update={"runtime": runtime, "engine": "fabric"}))
        attached = live_of(run, RunRecord("", []))
        assert _restarts(attached, [0]) == {}
        said = capsys.readouterr().err
        assert ("no Docker Engine answers" in said) == (runtime == "docker")
