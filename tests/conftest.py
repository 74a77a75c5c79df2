"""What holds for all tests: what they deploy runs in virtual time, unless they say otherwise."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast, and the same to the byte. Tests of real processes ask for them; tests of the choice take this away."""
    monkeypatch.setenv("TESTBED_RUNTIME", "sim")
