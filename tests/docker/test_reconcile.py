"""A `deploy` killed at any moment, and a run whose directory was removed: nothing stays for ever.

The command that leads the run is killed for certain where a test says: a small program does the same as `testbed`, and
kills itself there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.image.engine_client import connected
from testbed.runtimes.docker.containers import FOLDER_LABEL, RUN_LABEL
from testbed.runtimes.tracking.ownership import MARK, new_mark
from testbed.runtimes.tracking.process_records import process_record
from tests.docker.dying import CREATED, CREATING, ENDED, deploy_dying
from tests.docker.runs import (
    command,
    containers,
    deploy,
    deploying,
    summary,
    until,
)

OURS = new_mark()

DONE = (0, 7)


def state(folder: Path) -> str:
    (row,) = json.loads(command(folder, "status", "r", "--format", "json").stdout)
    return str(row["state"])


def left(folder: Path) -> list[str]:
    run = folder / "results" / "r"
    found = [run / "runtime" / name for name in ("sockets", "processes.json", "outcome.json")]
    return [path.name for path in found if path.exists()]


def destroyed(folder: Path, *more: str) -> str:
    ended = command(folder, "destroy", *(more or ("r",)))
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


@pytest.mark.parametrize("moment", [CREATING, CREATED])
def test_killed_before_the_run_begins(moment: str, tmp_path: Path, image: str) -> None:
    deploy_dying(tmp_path, image, moment)
    assert 0 < len(containers(tmp_path)) <= 4
    assert state(tmp_path) == "left behind"
    again = deploy(tmp_path, image)
    assert again.returncode == 2
    assert "something of that run is left" in again.stderr
    assert "testbed destroy results/r" in again.stderr
    assert "r: " in destroyed(tmp_path)
    assert containers(tmp_path) == []
    assert left(tmp_path) == []
    assert "nothing is left of it" in destroyed(tmp_path)
    assert command(tmp_path, "collect", "results").returncode in (0, 8)
    if moment == CREATED:
        return
    again = deploy(tmp_path, image, nodes=2, rounds=2)
    assert again.returncode in DONE, again.stderr
    assert summary(tmp_path)["finished"] == 2
    assert (tmp_path / "results" / "r" / "failed-1" / "plan.json").is_file()


def test_killed_while_nodes_train_the_run_goes_on_until_it_is_destroyed(tmp_path: Path, image: str) -> None:
    with deploying(tmp_path, image, nodes=2) as running:
        until(lambda: (tmp_path / "results" / "r" / "runtime" / "processes.json").exists())
        assert state(tmp_path) in ("starting", "training")
        until(lambda: state(tmp_path) == "training")
        running.kill()
        running.wait()
    assert state(tmp_path) == "training"
    assert "ended" in destroyed(tmp_path, "--all")
    assert containers(tmp_path) == []
    assert left(tmp_path) == []
    assert summary(tmp_path)["reason"] == "interrupted", "it ended in good order"
    assert state(tmp_path) == "interrupted"
    told = command(tmp_path, "collect", "results/r")
    assert (told.returncode, "2 nodes interrupted: a.0, a.1" in told.stderr) == (8, True)


@pytest.mark.soaked
def test_killed_when_all_is_over_its_results_are_there(tmp_path: Path, image: str) -> None:
    deploy_dying(tmp_path, image, ENDED)
    assert len(containers(tmp_path)) == 4
    assert state(tmp_path) == "finished"
    assert "results/r` removes it" in command(tmp_path, "status", "r", "--format", "json").stdout
    rows = json.loads(command(tmp_path, "collect", "results", "--format", "json").stdout)
    assert '"finished": 2' in json.dumps(rows)
    assert "removed what it had left" in destroyed(tmp_path)
    assert containers(tmp_path) == []
    assert left(tmp_path) == []
    assert state(tmp_path) == "finished"


def test_destroyed_from_elsewhere_the_command_says_how_it_ended(tmp_path: Path, image: str) -> None:
    """And removes the containers itself, even if another process does, too."""
    with deploying(tmp_path, image, nodes=2) as running:
        until(lambda: (tmp_path / "results" / "r" / "events.jsonl").exists())
        until(lambda: state(tmp_path) == "training")
        assert "r: ended deploy" in destroyed(tmp_path)
        _, said = running.communicate(timeout=60)
        assert running.returncode == 130, said
    assert containers(tmp_path) == []
    assert summary(tmp_path)["reason"] == "interrupted"


@contextmanager
def abandoned(folder: Path, image: str, run_id: str, *, running: bool = False) -> Iterator[str]:
    """A container of a run in that folder; gone afterwards."""
    labels = {RUN_LABEL: run_id, FOLDER_LABEL: str(folder.resolve())}
    with connected() as engine:
        api = engine.api
        host = api.create_host_config(network_mode="none")
        made = api.create_container(image, entrypoint=["sleep", "300"], labels=labels, host_config=host)["Id"]
        try:
            if running:
                api.start(made)
            yield made
        finally:
            if is_there(made):
                api.remove_container(made, force=True)


def is_there(container: str) -> bool:
    with connected() as engine:
        return bool(engine.api.containers(all=True, filters={"id": container}))


def test_the_containers_of_a_directory_that_is_gone_stand_in_the_way_and_are_found(tmp_path: Path, image: str) -> None:
    gone = tmp_path / "results" / "r"
    with abandoned(gone, image, "r", running=True) as container:
        refused = deploy(tmp_path, image)
        assert refused.returncode == 5
        assert f"there are containers of a run in {gone.resolve()} already" in refused.stderr
        assert f"testbed destroy {gone.resolve()}" in refused.stderr
        assert not gone.exists(), "nothing was begun"
        assert is_there(container)
        said = destroyed(tmp_path, str(gone))
        assert "r: ended container" in said
        assert not is_there(container)
        assert command(tmp_path, "destroy", "r").returncode == 2, "there is no such run now"


def test_destroy_all_takes_only_what_was_below_its_folder(tmp_path: Path, image: str) -> None:
    (tmp_path / "results").mkdir()
    with (
        abandoned(tmp_path / "results" / "mine", image, "mine") as mine,
        abandoned(tmp_path / "elsewhere" / "other", image, "other") as other,
        abandoned(tmp_path / "results" / "deep" / "er", image, "er") as deeper,
    ):
        assert "mine: removed what it had left" in destroyed(tmp_path, "--all")
        assert [is_there(each) for each in (mine, other, deeper)] == [False, True, True]
        assert "er: removed" in destroyed(tmp_path, "er", "--results", "results/deep")
        assert [is_there(each) for each in (other, deeper)] == [True, False]


def test_a_directory_without_its_plan_is_still_a_run(tmp_path: Path, image: str) -> None:
    run = tmp_path / "results" / "r"
    (run / "runtime" / "sockets").mkdir(parents=True)
    with abandoned(run, image, "r") as container:
        destroyed(tmp_path)
        assert not is_there(container)
        assert left(tmp_path) == []


def test_without_an_engine_only_what_may_be_left_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'none'}")
    for name in ("done", "r"):
        run = tmp_path / "results" / name
        (run / "nodes").mkdir(parents=True)
        (run / "plan.json").write_text('{"runtime": "docker"}')
    assert "nothing is left of it" in destroyed(tmp_path, "done")
    (tmp_path / "results" / "r" / "runtime" / "sockets").mkdir(parents=True)
    for words in (("r",), ("--all",)):
        refused = command(tmp_path, "destroy", *words)
        assert refused.returncode == 4, words
        assert "no Docker Engine answers" in refused.stderr
        assert left(tmp_path) == ["sockets"]
    shutil.rmtree(tmp_path / "results" / "r")


@pytest.mark.parametrize("is_it", [True, False])
def test_the_command_is_told_from_whoever_has_its_number_now(
    tmp_path: Path,
    image: str,  # noqa: ARG001 - an Engine is asked
    *,
    is_it: bool,
) -> None:
    run = tmp_path / "results" / "r"
    (run / "runtime").mkdir(parents=True)
    (run / "plan.json").write_text('{"runtime": "docker"}')
    words, marked = [sys.executable, "-c", "import time; time.sleep(300)"], os.environ | ({MARK: OURS} if is_it else {})
    with subprocess.Popen(words, env=marked) as program:
        until(Path(f"/proc/{program.pid}/environ").read_bytes)  # the kernel has it a moment after the program began
        found = process_record("deploy", program.pid)
        recorded = {"name": found.name, "pid": found.pid, "start_ticks": found.start_ticks - (not is_it)}
        (run / "runtime" / "processes.json").write_text(
            json.dumps({"sockets": "", "processes": [recorded], "mark": OURS})
        )
        try:
            destroyed(tmp_path)
            assert program.poll() == (-signal.SIGTERM if is_it else None)
        finally:
            program.kill()
