"""A run whose sockets are on volumes, and that no process leads: all commands go through the Docker Engine."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence

import pytest

from testbed.image.engine_client import connected
from testbed.runtimes.docker.containers import NODE_LABEL
from tests.docker.ordinary_user import Ordinary, with_a_folder
from tests.docker.runs import (
    command,
    containers,
    deploy_words,
    until,
)
from tests.docker.volume_runs import ON_VOLUMES, nothing_is_left, relays

DONE = (0, 7)


@pytest.fixture(scope="module")
def user(image: str) -> Iterator[Ordinary]:
    """Whose run `r` goes on, without any command that leads it."""
    with with_a_folder() as made:
        chosen = deploy_words(made.folder, image, "--detach", *ON_VOLUMES, nodes=3, rounds=50_000)
        try:
            begun = made.did(*chosen[chosen.index("deploy") :])
            assert begun.returncode == 0, begun.stderr
            yield made
        finally:
            command(made.folder, "destroy", "r", "--force")
            assert nothing_is_left(made.folder)


def did(user: Ordinary, *arguments: str) -> subprocess.CompletedProcess[str]:
    ended = user.did(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_it_can_be_looked_at(user: Ordinary) -> None:
    (row,) = json.loads(did(user, "status", "r", "--format", "json").stdout)
    assert (row["state"], row["nodes"]) == ("training", 3)
    assert row["health"] in ("valid", "overloaded")
    assert relays(user.folder) == 0, "it has ended with the command"


def test_its_links_are_shown_and_changed(user: Ordinary) -> None:
    did(user, "link", "set", "r", "a.0", "r", "--latency", "30ms")
    (there, _) = json.loads(did(user, "link", "show", "r", "a.0", "r", "--format", "json").stdout)
    assert (there["latency_ms"], there["changed"]) == (30, True)
    did(user, "link", "reset", "r")


def test_things_happen_to_its_nodes(user: Ordinary) -> None:
    told = did(user, "fault", "pause", "r", "a.1", "--for", "1s").stderr
    assert "pause: 1 node" in told
    assert "resume" in told, "what ends by itself is told of, too"
    refused = user.did("fault", "pause", "r", "nobody")
    assert refused.returncode == 2


def test_packets_are_captured(user: Ordinary) -> None:
    did(user, "capture", "r", "a.0", "-o", "a.pcap", "--for", "1s")
    assert (user.folder / "a.pcap").stat().st_size > 100


def test_commands_run_in_it(user: Ordinary) -> None:
    assert "eth0" in did(user, "exec", "r", "a.0", "--", "cat", "/proc/net/dev").stdout


@pytest.mark.soaked
def test_to_measure_it_is_for_root(user: Ordinary) -> None:
    if user.uid != os.getuid():
        assert user.did("verify", "r").returncode == 4
    if os.getuid() == 0:
        measured = command(user.folder, "verify", "r", "--pairs", "2", "--format", "json")
        assert measured.returncode in (*DONE, 8), measured.stderr
        assert json.loads(measured.stdout)["measurements"]


@pytest.mark.parametrize("arguments", [("logs", "-f", "r"), ("status", "-w", "r"), ("capture", "r", "a.2")])
def test_no_relay_outlives_who_wanted_it(user: Ordinary, arguments: Sequence[str]) -> None:
    following = user.started(*arguments)
    try:
        if arguments[0] == "capture":
            until(lambda: relays(user.folder) == 1)
        else:
            time.sleep(2.5)
            assert following.poll() is None, "the run goes on"
    finally:
        following.kill()
        following.communicate()
    until(lambda: relays(user.folder) == 0, within_s=20)


def test_a_learner_sees_its_own_sockets_only(user: Ordinary) -> None:
    seen = set()
    with connected() as engine:
        for each in containers(user.folder):
            if NODE_LABEL in each["Labels"]:
                mounts = engine.api.inspect_container(each["Id"])["Mounts"]
                assert {mount["Destination"] for mount in mounts if mount["RW"]} == {
                    "/testbed/sockets",
                    "/testbed/node",
                }
                own = [mount["Name"] for mount in mounts if mount["Type"] == "volume" and mount["RW"]]
                assert len(own) == 1
                seen.update(own)
    assert len(seen) == 3, "each has another one"
    shown = did(user, "exec", "r", "a.1", "--", "sh", "-c", "ls -lnd /testbed/sockets; ls /testbed/sockets")
    folder, *names = shown.stdout.splitlines()
    assert folder.split()[:4] == ["drwx------", "2", str(user.uid), str(os.getgid() or user.uid)]
    assert set(names) <= {"supervisor.sock", "control.sock", "fabric.sock", "ended"}
    denied = user.did("exec", "r", "a.1", "--", "touch", "/testbed/slots/mine")
    assert "Read-only file system" in denied.stderr
