"""`tests`: tests that CI leaves out because others cover nearly the same (mark `soaked`)."""

from __future__ import annotations

from pathlib import Path

from soaks.soak import Case, Soak, Verdict
from soaks.tested import ALL_TESTS, tested


def _marked(folder: Path, number: int) -> Verdict:  # noqa: ARG001
    return tested(["-m", "soaked", "tests"], ALL_TESTS)


def _contract(folder: Path, number: int) -> Verdict:  # noqa: ARG001
    """All of it in containers, where CI leaves out what is the same as without; skipped without an Engine."""
    return tested(["tests/contract/test_containers.py"], ALL_TESTS)


SOAK = Soak(
    name="tests",
    about="tests that CI has no time for, and the whole contract in containers",
    cases=(Case("marked", _marked), Case("contract", _contract)),
    tries=lambda _: 3,
    wanted=lambda tries, _: tries,
)
