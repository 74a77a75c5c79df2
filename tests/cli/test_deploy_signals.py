"""`testbed deploy` in a process of its own: signals, terminals, dying workers, no disk space, no network."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import main

pytestmark = pytest.mark.processes

TOPOLOGY = "services: {a: {replicas: 4}}\nbridges: [r]\nlinks: [{from: a, to: r, latency: 1ms, rate: 10Mbps}]\n"
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _topology(in_a_folder: Path) -> None:
    (in_a_folder / "t.yaml").write_text(TOPOLOGY)


def command(*arguments: str, rounds: int = 100_000) -> list[str]:
    fixed = ["deploy", "t.yaml", "--data", "digits", "--rounds", str(rounds), "--run-id", "run", "--workers", "2"]
    return [sys.executable, "-m", "testbed", *fixed, *arguments]


def until(what: Callable[[], object]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < limit, "it never happened"
        time.sleep(0.02)


def journals() -> list[Path]:
    return list(Path("results/run/nodes").glob("*/journal.jsonl"))


def is_under_way() -> bool:
    """Every node has done a round."""
    found = journals()
    return len(found) == 4 and all(b'"type":"round"' in each.read_bytes() for each in found)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def collected() -> tuple[int, dict[str, object]]:
    result = CliRunner().invoke(main, ["collect", "results/run", "--format", "json"])
    (run,) = json.loads(result.stdout)["runs"]
    return result.exit_code, run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_a_run_in_good_order(number: signal.Signals) -> None:
    with running() as process:
        until(is_under_way)
        workers = children(process.pid)
        process.send_signal(number)
        _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert len(workers) == 2
    assert all(is_gone(worker) for worker in workers)
    for journal in journals():
        last = json.loads(journal.read_text().splitlines()[-1])
        assert (last["type"], last["reason"], last["failure"]) == ("end", "interrupted", None)
    over = json.loads(Path("results/run/events.jsonl").read_text().splitlines()[-1])
    assert (over["type"], over["reason"], over["failed"]) == ("over", "interrupted", 0)
    assert "once more to end it at once" in told
    assert re.search(r"^interrupted: 0 nodes done, \d+ rounds?, ", told, re.MULTILINE)
    assert "Error" not in told
    assert collected()[0] == 8


def test_the_second_signal_ends_it_at_once() -> None:
    stubborn = (
        "from testbed.node.algorithm import Algorithm\n\n\nclass Mine(Algorithm):\n    async def run(self, node):\n"
        "        await node.train()\n        print('busy', flush=True)\n        while True:\n            pass\n"
    )
    Path("mine.py").write_text(stubborn)
    arguments = command("--algorithm", "mine.py:Mine")
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "busy\n"
        process.send_signal(signal.SIGINT)
        until(lambda: "once more" in process.stderr.readline())  # type: ignore[union-attr]
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in told
    assert "interrupted" in told


STEP_WITHOUT_END = """import time

import torch
from torch import nn


class Mine(nn.Module):
    def __init__(self, data):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        while self.calls > 5 and self.training:
            time.sleep(3600)
        return self.layer(x.flatten(1))
"""
SWALLOWS = """from testbed.node.algorithm import Algorithm


class Mine(Algorithm):
    async def run(self, node):
        await node.train()
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass
"""


@pytest.mark.parametrize(
    ("source", "chosen"), [(STEP_WITHOUT_END, "--model"), (SWALLOWS, "--algorithm")], ids=["step", "swallows"]
)
def test_one_sigterm_ends_a_run_within_seconds_whatever_its_code_does(source: str, chosen: str) -> None:
    Path("mine.py").write_text(source)
    with running(chosen, "mine.py:Mine") as process:
        until(lambda: len(journals()) == 4)
        time.sleep(1.0)  # it is in the midst of it
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - begun < 10.0, "two seconds on an idle machine"
    assert process.returncode == 130
    if source == STEP_WITHOUT_END:
        over = json.loads(Path("results/run/events.jsonl").read_text().splitlines()[-1])
        assert (over["type"], over["reason"]) == ("over", "interrupted")


def test_when_it_is_killed_its_workers_go_and_what_it_wrote_can_be_read() -> None:
    with running() as process:
        until(is_under_way)
        workers = children(process.pid)
        process.kill()
        process.communicate()
    assert len(workers) == 2
    until(lambda: all(is_gone(worker) for worker in workers))
    code, run = collected()
    assert code == 8
    assert run["problems"]


def test_a_worker_that_is_killed_ends_the_run_with_words() -> None:
    with running() as process:
        until(is_under_way)
        os.kill(children(process.pid)[0], signal.SIGKILL)
        _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 6
    assert "failed: a worker process was killed by signal 9, perhaps for want of memory" in told
    assert "Traceback" not in told
    last = [json.loads(journal.read_text().splitlines()[-1]) for journal in journals()]
    assert {record["type"] for record in last} == {"end"}
    assert "failed" in {record["reason"] for record in last} <= {"failed", "stopped"}


def on_a_terminal(arguments: list[str], columns: int) -> tuple[int, str]:
    """The exit code and all that was shown."""
    ours, theirs = pty.openpty()
    with suppress(OSError):
        import fcntl
        import struct
        import termios

        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    environment["TERM"] = "xterm"
    shown = b""
    with subprocess.Popen(arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        limit = time.monotonic() + PATIENCE_S
        while time.monotonic() < limit:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    shown += os.read(ours, 65536)
                except OSError:  # no process has it open any more
                    break
        os.close(ours)
    return process.returncode, shown.decode()


@pytest.mark.parametrize("columns", [100, 40])
def test_a_terminal_has_one_moving_line(columns: int) -> None:
    code, shown = on_a_terminal(command(rounds=200), columns)
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    moving = [line for line in re.split(r"[\r\n]+", plain) if re.match(r"round \d+/200", line)]
    assert moving
    assert all(len(line) <= columns for line in moving)
    assert not any(line.endswith("…") for line in moving)
    assert columns == 40 or "4 nodes · " in moving[-1]
    assert "finished: 4 nodes, 200 rounds, accuracy" in plain
    assert plain.rstrip().endswith("next: testbed collect results/run")
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h")  # the cursor is back


def test_without_network_the_data_sets_that_need_none_are_named() -> None:
    alone = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a network namespace")
    arguments = [*alone, sys.executable, "-m", "testbed", "deploy", "t.yaml", "--rounds", "2"]
    environment = {**os.environ, "TESTBED_DATA": str(Path.cwd() / "none")}
    result = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 4
    assert "cannot fetch the data set fashion-mnist" in result.stderr
    assert "data sets that need no download: digits, synthetic" in result.stderr
    assert not Path("results").exists()


def test_a_full_disk_is_told_in_one_line() -> None:
    script = "mount -t tmpfs -o size=200k tmpfs results && exec " + " ".join(command(rounds=500)).replace(
        "--workers 2", "--workers 0"
    )
    Path("results").mkdir()
    arguments = ["unshare", "--map-root-user", "--mount", "sh", "-c", script]
    if subprocess.run([*arguments[:3], "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a mount namespace")
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert result.returncode == 6, "it broke a run that went on"
    assert "Traceback" not in result.stderr
    assert re.search(r"^Error: cannot write results/run/.*(full|No space)", result.stderr, re.MULTILINE)
