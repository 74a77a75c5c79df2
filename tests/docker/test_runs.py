"""Runs of real containers from beginning to end. How fast they are is not judged: others use this machine too."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from testbed.image.engine_client import connected
from testbed.runtimes.docker.containers import NODE_LABEL
from tests.docker.runs import command, containers, deploy, deploying, summary, until

DONE = (0, 7)
BEGINS_WITH = 1 << 6 | 1 << 7 | 1 << 12
"""SETGID, SETUID and NET_ADMIN."""


def test_a_run_of_containers_is_one_like_any_other(tmp_path: Path, image: str) -> None:
    ended = deploy(tmp_path, image)
    assert ended.returncode in DONE, ended.stderr
    assert "all nodes began" in ended.stderr
    told = summary(tmp_path)
    assert (told["reason"], told["finished"], told["failed"], told["broken"]) == ("finished", 3, [], [])
    assert containers(tmp_path) == []
    run = tmp_path / "results" / "r"
    assert {path.stat().st_uid for path in run.rglob("*")} == {os.getuid()}
    left = {path.name for path in run.rglob("*") if path.is_socket() or path.name in ("left-models", "sockets")}
    assert left == set()
    assert json.loads((run / "plan.json").read_text())["versions"]["image"].startswith("sha256:")
    rows = json.loads(command(tmp_path, "collect", "results", "--format", "json").stdout)
    text = json.dumps(rows)
    assert '"docker"' in text
    averages = [line for line in (run / "events.jsonl").read_text().splitlines() if '"average"' in line]
    assert len(averages) == 2, "models reach the judge through the shared volume"


@pytest.mark.soaked
def test_their_bytes_went_through_the_fabric(tmp_path: Path, image: str) -> None:
    """And through nothing else: a container has no other network."""
    ended = deploy(tmp_path, image, rounds=2)
    assert ended.returncode in DONE, ended.stderr
    run = tmp_path / "results" / "r"
    sent = 0
    for name in ("a.0", "a.1", "a.2"):
        for line in (run / "nodes" / name / "journal.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record["type"] == "end":
                sent += record["sent"]["payload"]
    health = json.loads((run / "engine" / "health.json").read_text())
    carried = sum(node["bytes_out"] for node in health["nodes"])
    assert carried > sent > 0


@pytest.mark.soaked
def test_one_that_crashes_and_joins_lives_again(tmp_path: Path, image: str) -> None:
    events = "  - {at: 0.2s, node: a.1, do: crash}\n  - {at: 0.4s, node: a.1, do: join}\n"
    ended = deploy(tmp_path, image, rounds=6, events=events)
    assert ended.returncode in DONE, ended.stderr
    journal = (tmp_path / "results" / "r" / "nodes" / "a.1" / "journal.jsonl").read_text()
    starts = [json.loads(line) for line in journal.splitlines() if '"start"' in line]
    assert [each["rejoin"] for each in starts] == [None, "fresh"]
    assert summary(tmp_path)["failed"] == []


FINDS = ["python", "-c", "import socket; print(socket.gethostbyname('a.0'))"]


@pytest.mark.parametrize("how", ["kill", "remove"])
def test_a_container_that_is_killed_fails_the_run_with_its_exit_code(how: str, tmp_path: Path, image: str) -> None:
    with deploying(tmp_path, image) as running:
        until(lambda: trains(tmp_path))
        (victim,) = (each["Id"] for each in containers(tmp_path) if each["Labels"].get(NODE_LABEL) == "a.2")
        with connected() as engine:
            found = engine.containers.get(victim).exec_run(FINDS)
            assert found.output == b"198.18.0.1\n", "a node's name is a host's"
            if how == "kill":
                engine.api.kill(victim)
            else:
                engine.api.remove_container(victim, force=True)
        _, said = running.communicate(timeout=120)
        assert running.returncode == 6, said
        assert "a.2" in said
        assert "its container ended with exit code 137" in said
        assert ("it was removed, such as by `docker rm`" in said) == (how == "remove")
        assert containers(tmp_path) == []


@pytest.mark.soaked
def test_ctrl_c_ends_a_run_in_good_order(tmp_path: Path, image: str) -> None:
    with deploying(tmp_path, image) as running:
        until(lambda: trains(tmp_path))
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=120)
        assert running.returncode == 130, said
        assert summary(tmp_path)["reason"] == "interrupted"
        assert containers(tmp_path) == []


def test_a_run_whose_command_was_killed_goes_on_and_can_be_looked_at_and_destroyed(tmp_path: Path, image: str) -> None:
    begun = deploy(tmp_path, image, "--detach", "--format", "json", rounds=5000)
    assert begun.returncode == 0, begun.stderr
    assert json.loads(begun.stdout)["run_id"] == "r"
    (row,) = json.loads(command(tmp_path, "status", "r", "--format", "json").stdout)
    assert row["state"] == "training"
    assert row["nodes"] == 3
    there = command(tmp_path, "exec", "r", "a.0", "--", "cat", "/proc/net/dev")
    assert there.returncode == 0, there.stderr
    assert {line.split(":")[0].strip() for line in there.stdout.splitlines()[2:]} >= {"lo", "eth0"}
    paused = command(tmp_path, "fault", "pause", "r", "a.1", "--for", "1s")
    assert paused.returncode == 0, paused.stderr
    changed = command(tmp_path, "link", "set", "r", "a.0", "r", "--latency", "30ms")
    assert changed.returncode == 0, changed.stderr
    caught = command(tmp_path, "capture", "r", "a.0", "-o", "a.pcap", "--for", "1s")
    assert caught.returncode == 0, caught.stderr
    assert (tmp_path / "a.pcap").stat().st_size > 100
    gone = command(tmp_path, "destroy", "r")
    assert gone.returncode == 0, gone.stderr
    assert containers(tmp_path) == []
    assert summary(tmp_path)["reason"] == "interrupted"
    assert command(tmp_path, "destroy", "r").returncode == 0


def test_what_a_learner_may_do(tmp_path: Path, image: str) -> None:
    """Seen from the host: who it is, what it is allowed, where it can write."""
    with deploying(tmp_path, image), connected() as engine:
        until(lambda: trains(tmp_path))
        there = containers(tmp_path)
        assert len(there) == 5
        for each in there:
            document = engine.api.inspect_container(each["Id"])
            assert document["HostConfig"]["NetworkMode"] == "none"
            assert document["HostConfig"]["ReadonlyRootfs"]
            assert document["HostConfig"]["CapDrop"] == ["ALL"]
            assert not document["HostConfig"]["Privileged"]
            assert document["Config"]["Healthcheck"]["Test"] == ["NONE"]
            processes = engine.api.top(each["Id"], "-eo pid")["Processes"]
            for (pid,) in processes:
                assert_it_is_nobody_special(pid)
            if NODE_LABEL in each["Labels"]:
                writable = {mount["Destination"] for mount in document["Mounts"] if mount["RW"]}
                assert writable == {"/testbed/sockets", "/testbed/node"}
                assert len(processes) == 2


def assert_it_is_nobody_special(pid: str) -> None:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[kind], 16) == 0, kind
    # What a learner's container begins with cannot be taken from this set without one more; nothing can come of it.
    assert int(status["CapBnd"], 16) & ~BEGINS_WITH == 0
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Uid"].split() == [str(os.getuid())] * 4


def trains(folder: Path) -> bool:
    """Whether a round is over."""
    return any(line.startswith('{"type":"round') for line in journal_of(folder, "a.0"))


def journal_of(folder: Path, node: str) -> list[str]:
    try:
        return (folder / "results" / "r" / "nodes" / node / "journal.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
