"""`testbed prepare`, which Compose runs before all else: the folder of a run is made whole, or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed.cli.main import main
from testbed.errors import CouldNotStart, ExitCode
from testbed.runtimes.containers import layout
from testbed.runtimes.containers.__main__ import main as container

WORDS = ["prepare", "--run-id", "r", "topologies/lan4.xml", "--data", "digits", "--results"]
STOPPED = f"""
import os, signal, sys
from testbed.cli.main import main
from testbed.runtimes.containers import layout

layout.lay_out = lambda *_: (os.kill(os.getpid(), signal.SIGTERM), signal.pause())
main({WORDS!r} + sys.argv[1:])
"""


@pytest.fixture
def restored() -> Iterator[None]:
    """The command is a process of its own usually."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("restored")
@pytest.mark.slow
def test_what_went_wrong_is_not_in_the_way_of_the_next_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise CouldNotStart("no room", "")

    with monkeypatch.context() as patch:
        patch.setattr(layout, "lay_out", fail)
        assert CliRunner().invoke(main, [*WORDS, str(tmp_path)]).exit_code == ExitCode.NOT_STARTED
    assert not list(tmp_path.iterdir())
    done = CliRunner().invoke(main, [*WORDS, str(tmp_path)])
    assert done.exit_code == 0, done.output
    made = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert "r/runtime/sockets/nodes/3" in made
    again = CliRunner().invoke(main, [*WORDS, str(tmp_path)])
    assert (again.exit_code, "exists already" in again.output) == (ExitCode.USAGE, True)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == made, "a run there was is left"


@pytest.mark.processes
def test_what_is_said_before_anybody_listens_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process 1 loses it otherwise, and loading takes seconds on a busy machine."""
    masks: list[set[int]] = []

    def execv(*_: object) -> None:
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "execv", execv)
            container(["prepare"])
        process = subprocess.Popen([sys.executable, "-m", "testbed", *WORDS, str(tmp_path)])
        process.send_signal(signal.SIGTERM)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert signal.SIGTERM in masks[0]
    assert process.wait(60) == ExitCode.INTERRUPTED
    assert not list(tmp_path.iterdir())


@pytest.mark.processes
def test_a_container_that_is_stopped_ends_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-c", STOPPED, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == ExitCode.INTERRUPTED, done.stderr
    assert not list(tmp_path.iterdir())
