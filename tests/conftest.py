"""What holds for all tests: what they deploy runs in virtual time, unless they say otherwise."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Begun in the background, where shells have Ctrl-C ignored: the commands that tests interrupt would be deaf to it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast, and the same to the byte. Tests of real processes ask for them; tests of the choice take this away."""
    monkeypatch.setenv("TESTBED_RUNTIME", "sim")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Who failed and is asked again must answer: being skipped then would hide why."""
    report = yield
    if report.skipped and os.environ.get("TESTBED_TEST_AGAIN"):
        report.outcome = "failed"
    return report
