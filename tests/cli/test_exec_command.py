"""`testbed exec`: who is where in the network, as root and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.engines.privileges import User
from testbed.plan.files import read_plan, write_plan
from testbed.rundir import RunDirectory
from testbed.runtimes.enter import enter_network
from testbed.runtimes.tracking.process_records import process_record, read_record, record_of
from tests.cli.live_run import live_run
from tests.engines.world import NOBODY, need_tun_for_all, needs_network, pair, world

pytestmark = needs_network
needs_ping = pytest.mark.skipif(shutil.which("ping") is None, reason="there is no ping on this machine")
PING = ("ping", "-c", "2", "-W", "5", "198.18.0.2")


def status_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@needs_ping
@pytest.mark.parametrize("user", [None, pytest.param(User(NOBODY, NOBODY), id="nobody")])
def test_ping_works_there(user: User | None, tmp_path: Path) -> None:
    if user is not None and os.getuid() != 0:
        pytest.skip("only root can become another user")
    if user is not None:
        need_tun_for_all()
    with world(pair("5ms"), tmp_path) as net:
        for rank in (0, 1):
            (Path(net.config.sockets) / "nodes" / str(rank) / "fabric.sock").chmod(0o777)
        node = net.node(0, user=user)
        net.node(1, user=user)
        net.begin()
        pid = os.fork()
        if pid == 0:
            try:
                if user is not None:
                    os.setgroups([])
                    os.setresgid(user.gid, user.gid, user.gid)
                    os.setresuid(user.uid, user.uid, user.uid)
                enter_network(node.pid)
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.execvp(PING[0], PING)  # noqa: S606 - as the command does
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(99)
        assert status_of(pid) == 0


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    """Whose first node is a process without a network of its own: this one."""
    with live_run(tmp_path) as (directory, _):
        record = read_record(directory)
        assert record is not None
        mine = process_record("node 0", os.getpid())
        text = record_of(directory).read_bytes()
        changed = msgspec.structs.replace(record, processes=[*record.processes, mine])
        record_of(directory).write_bytes(msgspec.json.encode(changed))
        yield directory
        record_of(directory).write_bytes(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a.0", "--", "true"), "a.0 has no network of its own: it is only just starting"),
        (("a.1", "--", "true"), "a.1 does not live now"),
        (("a", "--", "true"), "a is 2 nodes"),
        (("a.7", "--", "true"), "there is no node `a.7`"),
        (("a.0",), "Missing argument"),
        (("a.0", "--"), "Missing argument"),
        (("a.0", "--result", "elsewhere", "--", "true"), "`exec` has no option --result"),
        (("--", "a.1", "ping", "-c"), "a.1 does not live now"),
    ],
)
def test_what_cannot_be(run: RunDirectory, words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(main, ["exec", str(run.path), *words])
    assert result.exit_code == 2
    assert said in result.stderr


def test_options_stand_before_the_command_wherever_they_are(run: RunDirectory) -> None:
    for place in range(3):
        words = [run.path.name, "a.1"]
        words[place:place] = ["--results", str(run.path.parent)]
        result = CliRunner().invoke(main, ["exec", *words, "--", "true", "--results", "nowhere"])
        assert "a.1 does not live now" in result.stderr, words


def test_without_an_engine_nobody_has_a_network(run: RunDirectory) -> None:
    write_plan(run, read_plan(run.plan).model_copy(update={"engine": "none"}))
    result = CliRunner().invoke(main, ["exec", str(run.path), "a.0", "--", "true"])
    assert result.exit_code == 4
    assert "a.0 has no network of its own" in result.stderr


def test_its_exit_code_is_the_commands_and_what_it_prints_too(tmp_path: Path) -> None:
    with live_run(tmp_path) as (directory, _), world(pair(), tmp_path / "other") as net:
        node = net.node(0)
        record = read_record(directory)
        assert record is not None
        there = [*record.processes, process_record("node 0", node.pid)]
        record_of(directory).write_bytes(msgspec.json.encode(msgspec.structs.replace(record, processes=there)))
        words = [sys.executable, "-m", "testbed", "exec", str(directory.path), "a.0", "--", "sh", "-c"]
        told = subprocess.run([*words, "cat /proc/net/fib_trie; exit 7"], capture_output=True, text=True, check=False)
        assert told.returncode == 7, told.stderr
        assert "198.18.0.1" in told.stdout
        for command, code in (("no-such-thing", 127), ("/no/such/thing", 127), ("/etc/passwd", 126)):
            none = subprocess.run([*words[:-2], command], capture_output=True, text=True, check=False)
            assert (none.returncode, none.stderr.rpartition(":")[0]) == (code, f"Error: cannot run {command}")
        killed = subprocess.run([*words, "kill -9 $$"], capture_output=True, check=False)
        assert killed.returncode == -9
