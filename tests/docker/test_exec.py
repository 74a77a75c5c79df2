"""`testbed exec` in a run of containers by an ordinary user: the Docker Engine runs it, without privileges."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.image.engine_client import connected
from testbed.runtimes.docker.containers import NODE_LABEL
from tests.docker.ordinary_user import Ordinary, with_a_folder
from tests.docker.runs import command, containers, deploy_words, until

PING = """
import socket, struct, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as icmp:
    icmp.settimeout(20)
    sent = time.monotonic()
    icmp.sendto(struct.pack("!BBHHH", 8, 0, 0, 0, 1) + bytes(48), (sys.argv[1], 0))
    icmp.recv(2048)
    print(time.monotonic() - sent)
"""
LINK_S = 0.005
"""Of each of the four links that a round trip takes."""


@pytest.fixture(scope="module")
def user(image: str) -> Iterator[Ordinary]:
    """Whose run `r` goes on."""
    with with_a_folder() as made:
        words = deploy_words(made.folder, image, "--detach", nodes=2, rounds=5000)
        try:
            begun = made.did(*words[words.index("deploy") :])
            assert begun.returncode == 0, begun.stderr
            yield made
        finally:
            command(made.folder, "destroy", "r", "--force")


def processes(folder: Path, node: str) -> list[str]:
    """In its container, by their words."""
    (id_,) = (each["Id"] for each in containers(folder) if each["Labels"].get(NODE_LABEL) == node)
    with connected() as engine:
        return [str(words) for _, words in engine.api.top(id_, "-eo pid,args")["Processes"]]


def test_what_it_reads_prints_and_ends_with(user: Ordinary) -> None:
    told = user.did("exec", "r", "a.0", "--", "sh", "-c", "cat; echo wrong >&2; exit 7", typed="hello\n")
    assert (told.returncode, told.stdout, told.stderr) == (7, "hello\n", "wrong\n")


def test_much_is_printed_and_much_is_not_read(user: Ordinary) -> None:
    told = user.did("exec", "r", "a.0", "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x")
    assert (told.returncode, told.stdout) == (0, "x" * 3_000_000)
    deaf = user.did("exec", "r", "a.0", "--", "true", typed="x" * 1_000_000)
    assert (deaf.returncode, deaf.stderr) == (0, "")


def test_who_it_is_and_where(user: Ordinary) -> None:
    told = user.did("exec", "r", "a.1", "--", "sh", "-c", "id -u; id -G; cat /proc/self/status /proc/net/fib_trie")
    uid, groups, *lines = told.stdout.splitlines()
    assert (uid, groups) == (str(user.uid), str(os.getgid() or user.uid))
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    assert status["NoNewPrivs"].strip() == "1"
    assert "198.18.0.2" in told.stdout


def test_packets_from_there_cross_the_emulated_network(user: Ordinary) -> None:
    told = user.did("exec", "r", "a.0", "--", "python", "-c", PING, "198.18.0.2")
    assert told.returncode == 0, told.stderr
    assert float(told.stdout) >= 4 * LINK_S


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("a.0", "--", "nothing"), 127, "cannot run nothing in the node's container: executable file not found"),
        (("a.0", "--", "/etc/passwd"), 126, "cannot run /etc/passwd in the node's container: permission denied"),
        (("a.7", "--", "true"), 2, "there is no node `a.7`"),
        (("a.0", "--"), 2, "Missing argument"),
    ],
)
def test_what_cannot_be(user: Ordinary, words: tuple[str, ...], code: int, said: str) -> None:
    told = user.did("exec", "r", *words)
    assert (told.returncode, told.stdout) == (code, "")
    assert said in told.stderr


def test_ctrl_c_reaches_the_command_and_its_last_words_reach_us(user: Ordinary) -> None:
    script = "trap 'echo bye; exit 5' INT; echo here; while :; do sleep 0.1; done"
    with user.started("exec", "r", "a.0", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=60)
    assert (process.returncode, said, errors) == (5, "bye\n", "")


def test_nothing_goes_on_that_nobody_listens_to(user: Ordinary) -> None:
    with user.started("exec", "r", "a.1", "--", "sh", "-c", "while :; do echo more; done") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "more\n"
        assert any("echo more" in each for each in processes(user.folder, "a.1"))
        process.stdout.close()
        process.wait(60)
    until(lambda: not any("echo more" in each for each in processes(user.folder, "a.1")), 20)


def test_the_network_cannot_be_measured_from_there(user: Ordinary) -> None:
    told = user.did("verify", "r", "--format", "json")
    assert (told.returncode, told.stdout) == (4, "")
    assert "only root may measure in a run of containers" in told.stderr
    assert "sudo" in told.stderr
