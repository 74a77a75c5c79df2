"""What holds for all tests: what they deploy runs in virtual time, unless they say otherwise. And what many need."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.image.fake_engine import FakeEngine
    from tests.runtimes.scratch_run import ScratchRun

pytest_plugins = ["tests.marking"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Begun in the background, where shells have Ctrl-C ignored: the commands that tests interrupt would be deaf to it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast, and the same to the byte. Tests of real processes ask for them; tests of the choice take this away."""
    monkeypatch.setenv("TESTBED_RUNTIME", "sim")


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, where the test is."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    """A Docker Engine that is not one, which commands find."""
    from tests.image.fake_engine import fake_engine

    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'e'}")
    with fake_engine(tmp_path / "e") as server:
        yield server


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[ScratchRun]:
    """A scratch of its own for a test that starts whole runs."""
    from tests.runtimes.scratch_run import made_in

    with made_in(tmp_path) as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Who failed and is asked again must answer: being skipped then would hide why."""
    report = yield
    if report.skipped and os.environ.get("TESTBED_TEST_AGAIN"):
        report.outcome = "failed"
    return report
