"""Runs whose sockets lie on volumes: all that commands do goes through the Engine, and no volume stays.

What Docker Desktop is like is imitated as far as one kernel can: the command has the folder of results by another way
than the Engine, so that files are shared and sockets are not, and sees no processes but its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from testbed.engines.privileges import User
from testbed.image.engine_client import connected
from testbed.plan.files import read_plan
from testbed.rundir import RunDirectory
from testbed.runtimes.docker.container_set import ContainerSet
from testbed.runtimes.docker.containers import NODE_LABEL, containers_of
from testbed.runtimes.docker.socket_places import OnVolumes
from tests.docker.dying import CREATING, ENDED, MADE, MAKING, deploy_dying
from tests.docker.runs import (
    PATIENCE_S,
    command,
    containers,
    deploy,
    deploy_words,
    deploying,
    environment,
    summary,
    until,
    words,
)
from tests.docker.volume_runs import ON_VOLUMES, nothing_is_left, relays, volumes

DONE = (0, 7)
only_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can mount what such a machine is like")


# -- whole runs --------------------------------------------------------------------------------------------------------


def test_a_whole_run_is_one_like_any_other(tmp_path: Path, image: str) -> None:
    chosen = ("--runtime", "docker", "--image", image, "--rounds", "4", "--run-id", "r", "--force", *ON_VOLUMES)
    ended = command(tmp_path, "deploy", "topologies/lan4.xml", "--data", "digits", *chosen)
    assert ended.returncode in DONE, ended.stderr
    assert "sockets are on volumes" in ended.stderr
    assert "Docker Desktop: expected to work, not tested" in ended.stderr
    assert "all nodes began" in ended.stderr
    told = summary(tmp_path)
    assert (told["reason"], told["finished"], told["failed"], told["broken"]) == ("finished", 4, [], [])
    assert nothing_is_left(tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_socket()]


@pytest.mark.soaked
def test_who_crashes_comes_back(tmp_path: Path, image: str) -> None:
    """A container that is started again finds its volume as it was."""
    events = "  - {at: 0.2s, node: a.1, do: crash}\n  - {at: 0.4s, node: a.1, do: join}\n"
    ended = deploy(tmp_path, image, *ON_VOLUMES, rounds=6, events=events)
    assert ended.returncode in DONE, ended.stderr
    assert summary(tmp_path)["failed"] == []
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize("runtime", ["sim", "local"])
def test_only_containers_have_them(runtime: str, tmp_path: Path) -> None:
    ended = command(tmp_path, "deploy", "topologies/lan4.xml", "--runtime", runtime, *ON_VOLUMES)
    assert ended.returncode == 2
    assert "--sockets is for --runtime docker" in ended.stderr


# -- where sockets do not reach over, and processes are not seen -------------------------------------------------------


def on_another_machine(folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The folder of results is the Engine's, by another file system of this command's; so are all processes."""
    for name in ("results", "lower", "work"):
        (folder / name).mkdir(exist_ok=True)
    layers = f"lowerdir={folder}/lower,upperdir={folder}/results,workdir={folder}/work"
    mounted = f'mount -t overlay overlay -o "{layers}" "{folder}/results" || exit 99; exec "$@"'
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", mounted, "sh"]
    ended = subprocess.run(
        [*apart, *arguments],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    if ended.returncode == 99:
        pytest.skip(f"such a file system cannot be mounted here: {ended.stderr}")
    return ended


@only_root
def test_volumes_are_taken_where_sockets_do_not_reach_over(tmp_path: Path, image: str) -> None:
    ended = on_another_machine(tmp_path, deploy_words(tmp_path, image, nodes=2, rounds=2))
    assert ended.returncode in DONE, ended.stderr
    assert "containers cannot reach sockets in the folder of results: Connection refused" in ended.stderr
    assert "Docker Desktop: expected to work, not tested" in ended.stderr
    assert summary(tmp_path)["finished"] == 2
    assert nothing_is_left(tmp_path)


@only_root
def test_but_not_where_somebody_wants_the_folder(tmp_path: Path, image: str) -> None:
    ended = on_another_machine(tmp_path, deploy_words(tmp_path, image, "--sockets", "folder", nodes=2))
    assert ended.returncode == 4, ended.stderr
    assert "Error: containers cannot reach sockets in the folder of results" in ended.stderr
    assert "--sockets volume" in ended.stderr
    assert nothing_is_left(tmp_path)


@only_root
def test_who_sees_no_processes_asks_the_engine(tmp_path: Path, image: str) -> None:
    begun = on_another_machine(tmp_path, deploy_words(tmp_path, image, "--detach", nodes=2, rounds=50_000))
    assert begun.returncode == 0, begun.stderr

    def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
        return on_another_machine(tmp_path, words(*arguments))

    (row,) = json.loads(asked("status", "r", "--format", "json").stdout)
    assert row["state"] == "training"
    shown = asked("link", "show", "r", "a.0", "r", "--format", "json")
    assert json.loads(shown.stdout)[0]["latency_ms"] == 5
    there = asked("exec", "r", "a.0", "--", "cat", "/proc/net/dev")
    assert (there.returncode, "eth0" in there.stdout) == (0, True), there.stderr
    denied = asked("verify", "r")
    assert denied.returncode == 4, denied.stderr
    assert "Error: the processes of this run cannot be seen from here" in denied.stderr
    gone = asked("destroy", "r")
    assert gone.returncode == 0, gone.stderr
    assert "r: ended" in gone.stderr
    assert summary(tmp_path)["reason"] == "interrupted", "in good order"
    assert nothing_is_left(tmp_path)
    (row,) = json.loads(asked("status", "r", "--format", "json").stdout)
    assert row["state"] == "interrupted"


# -- however it ends ---------------------------------------------------------------------------------------------------


@pytest.mark.soaked
@pytest.mark.parametrize("moment", [MAKING, MADE, CREATING, ENDED])
def test_whenever_the_command_is_killed_destroy_removes_all(moment: str, tmp_path: Path, image: str) -> None:
    deploy_dying(tmp_path, image, moment, *ON_VOLUMES)
    assert volumes(tmp_path)
    told = command(tmp_path, "status", "r", "--format", "json")
    assert told.returncode == 0, told.stderr
    gone = command(tmp_path, "destroy", "r")
    assert gone.returncode == 0, gone.stderr
    assert nothing_is_left(tmp_path)


@pytest.mark.soaked
def test_killed_while_nodes_train_the_run_goes_on_until_it_is_destroyed(tmp_path: Path, image: str) -> None:
    def state() -> str:
        (row,) = json.loads(command(tmp_path, "status", "r", "--format", "json").stdout)
        return str(row["state"])

    with deploying(tmp_path, image, *ON_VOLUMES, nodes=2) as running:
        until(lambda: (tmp_path / "results" / "r" / "events.jsonl").exists())
        assert state() in ("starting", "training")
        until(lambda: state() == "training")
        until(lambda: relays(tmp_path) == 1)
        running.kill()
        running.wait()
    until(lambda: relays(tmp_path) == 0)
    assert state() == "training"
    assert "ended" in command(tmp_path, "destroy", "--all").stderr
    assert summary(tmp_path)["reason"] == "interrupted", "it ended in good order"
    assert nothing_is_left(tmp_path)


def test_ctrl_c_and_destroy_end_it_in_good_order(tmp_path: Path, image: str) -> None:
    with deploying(tmp_path, image, *ON_VOLUMES, nodes=2) as running:
        until(lambda: (tmp_path / "results" / "r" / "nodes" / "a.0" / "journal.jsonl").exists())
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=120)
    assert running.returncode == 130, said
    assert summary(tmp_path)["reason"] == "interrupted"
    assert nothing_is_left(tmp_path)


@pytest.mark.soaked
def test_what_comes_late_is_removed_too(tmp_path: Path, image: str) -> None:
    """A Docker Engine may still make a container for a process that has ended."""
    ended = deploy(tmp_path, image, *ON_VOLUMES, nodes=2, rounds=2)
    assert ended.returncode in DONE, ended.stderr
    run = RunDirectory((tmp_path / "results" / "r").resolve())
    plan = read_plan(run.plan)
    late = containers_of(plan, run, User(os.getuid(), os.getgid()), tmp_path, OnVolumes("r", range(2)))[-1]
    (run.path / "runtime" / "processes.json").write_text("{}")
    with connected() as engine:
        timer = threading.Timer(1.2, lambda: ContainerSet(engine, image).start([late]))
        timer.start()
        gone = command(tmp_path, "destroy", "r")
        timer.join()
        assert gone.returncode == 0, gone.stderr
        if not nothing_is_left(tmp_path):  # later than anybody waits: it is found all the same
            assert [each["Labels"][NODE_LABEL] for each in containers(tmp_path)] == ["a.1"]
            assert command(tmp_path, "destroy", "r").returncode == 0
        assert nothing_is_left(tmp_path)
