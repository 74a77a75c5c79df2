"""`seeds`: randomised tests, with different and more draws than in CI."""

from __future__ import annotations

from pathlib import Path

from soaks.soak import ROOT, Case, Soak, Verdict
from soaks.tested import ALL_TESTS, tested

MORE_EXAMPLES = 10
"""Examples of every property test, as a multiple of CI's."""


def property_tests() -> list[str]:
    """Files with Hypothesis tests."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(each.relative_to(ROOT)) for each in files if "@given(" in each.read_text()]


def _properties(folder: Path, number: int) -> Verdict:  # noqa: ARG001
    seed = f"--hypothesis-seed={number + 1}"
    settings = {"TESTBED_TEST_EXAMPLES": str(MORE_EXAMPLES)}
    return tested([seed, "-m", "not processes and not containers", *property_tests()], settings)


def _convergence(folder: Path, number: int) -> Verdict:  # noqa: ARG001
    """Runs the convergence tests with seeds that no earlier try had."""
    return tested(["tests/convergence"], {"TESTBED_TEST_FIRST_SEED": str(1 + 2 * number)} | ALL_TESTS)


SOAK = Soak(
    name="seeds",
    about="more examples of property tests, what learns better over other seeds",
    cases=(Case("properties", _properties), Case("convergence", _convergence)),
    tries=lambda _: 20,
    wanted=lambda tries, _: tries,
)
