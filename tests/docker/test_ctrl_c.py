"""Ctrl-C whenever it comes, once and twice: exit code 130, and nothing left. What a terminal shows until then."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.cli.progress_view import progress_view
from testbed.runtimes.docker.container_set import WORKERS
from testbed.runtimes.docker.runtime import _starting
from tests.docker.runs import containers, deploy_words, environment, summary

NODES = 2 * WORKERS
"""More than the Engine is asked for at a time."""
PATIENCE_S = 120.0
LEFT = ("sockets", "processes.json", "outcome.json", "probe.sock")


class Terminal:
    """A run on a terminal."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self.process = process
        self._ours = ours
        self.shown = ""

    def read(self) -> None:
        """What has come, for a moment."""
        if select.select([self._ours], [], [], 0.05)[0]:
            with suppress(OSError):  # no process has it open any more
                text = os.read(self._ours, 65536).decode(errors="replace")
                self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)

    def wait_for(self, is_so: Callable[[], object]) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert self.process.poll() is None, self.shown
            assert time.monotonic() < until_s, self.shown
            self.read()

    def press(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def ended(self) -> int:
        until_s = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < until_s, self.shown
            self.read()
        self.read()
        return self.process.returncode


@contextmanager
def on_a_terminal(folder: Path, image: str, *, nodes: int, rounds: int = 5000) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    surroundings = {name: value for name, value in environment().items() if name not in ("COLUMNS", "NO_COLOR")}
    with subprocess.Popen(
        deploy_words(folder, image, "--force", nodes=nodes, rounds=rounds),
        cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env={**surroundings, "TERM": "xterm"},
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            process.kill()
            os.close(ours)


def assert_nothing_is_left(folder: Path) -> None:
    assert containers(folder) == []
    run = folder / "results" / "r"
    assert [path for path in run.rglob("*") if path.is_socket() or path.name in LEFT] == []


def assert_interrupted(folder: Path) -> None:
    """As everybody can see later."""
    seen = CliRunner().invoke(main, ["status", str(folder / "results" / "r"), "--format", "json"])
    assert json.loads(seen.stdout)[0]["state"] == "interrupted"


@pytest.mark.parametrize("times", [1, 2])
def test_while_containers_are_started(times: int, tmp_path: Path, image: str) -> None:
    with on_a_terminal(tmp_path, image, nodes=NODES) as terminal:
        terminal.wait_for(lambda: re.search(rf"starting containers ([2-9]|1[0-7])/{NODES + 2}", terminal.shown))
        terminal.press()
        if times == 2:
            terminal.wait_for(lambda: "once more to end it at once" in terminal.shown)
            terminal.press()
        assert terminal.ended() == 130, terminal.shown
    assert f"{NODES + 2}/{NODES + 2}" not in terminal.shown, "not all were started"
    assert "waiting for attachment" not in terminal.shown
    assert terminal.shown.rstrip().endswith("interrupted")
    assert "Traceback" not in terminal.shown
    assert_nothing_is_left(tmp_path)
    assert_interrupted(tmp_path)


@pytest.mark.parametrize("times", [1, 2])
def test_before_the_nodes_begin(times: int, tmp_path: Path, image: str) -> None:
    with on_a_terminal(tmp_path, image, nodes=3) as terminal:
        terminal.wait_for(lambda: "waiting for attachment · 5 containers" in terminal.shown)
        for _ in range(times):
            terminal.press()
            time.sleep(0.2)
        assert terminal.ended() == 130, terminal.shown
    assert "all nodes began" not in terminal.shown or times == 1
    assert "Traceback" not in terminal.shown
    if times == 1:
        assert summary(tmp_path)["reason"] == "interrupted"
    if "all nodes began" not in terminal.shown:
        assert_interrupted(tmp_path)
    assert_nothing_is_left(tmp_path)


def test_twice_while_nodes_train(tmp_path: Path, image: str) -> None:
    with on_a_terminal(tmp_path, image, nodes=3) as terminal:
        terminal.wait_for(lambda: re.search(r"round [1-9]", terminal.shown))
        for _ in range(2):
            terminal.press()
            time.sleep(0.05)
        assert terminal.ended() == 130, terminal.shown
    assert "Traceback" not in terminal.shown
    assert_nothing_is_left(tmp_path)


@pytest.mark.soaked
def test_when_all_is_over(tmp_path: Path, image: str) -> None:
    """The results are complete; whether it came in time for an interruption is chance."""
    with on_a_terminal(tmp_path, image, nodes=2, rounds=3) as terminal:
        terminal.wait_for((tmp_path / "results" / "r" / "summary.json").exists)
        terminal.press()
        assert terminal.ended() in (0, 7, 130), terminal.shown
    assert summary(tmp_path)["reason"] == "finished"
    assert "Traceback" not in terminal.shown
    assert_nothing_is_left(tmp_path)


def test_a_log_is_not_told_of_every_container(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_view(quiet=False) as shown:
        for count in range(1, 5):
            shown.starting(_starting(count, 4))
    assert capfd.readouterr().err == ""
    assert _starting(3, 4) == "starting containers 3/4"
    assert _starting(4, 4) == "waiting for attachment · 4 containers"
