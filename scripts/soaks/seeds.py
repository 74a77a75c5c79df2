"""`seeds`: the tests that draw, with other draws and more of them than CI has time for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from soaks.soak import ROOT, Case, Soak, Verdict

MORE_EXAMPLES = 10
"""Of every property test, times what CI draws."""
_LONGEST_S = 4 * 3600


def property_tests() -> list[str]:
    """Files with tests that Hypothesis draws examples for."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(each.relative_to(ROOT)) for each in files if "@given(" in each.read_text()]


def _tested(words: list[str], settings: dict[str, str]) -> Verdict:
    """Other examples than in CI, which repeats its own; those that failed are in the record."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | settings
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=7200", *words]
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_LONGEST_S)
    except subprocess.TimeoutExpired as hung:
        output = hung.stdout.decode(errors="replace") if isinstance(hung.stdout, bytes) else hung.stdout or ""
        return Verdict(False, "hung", {"seconds": _LONGEST_S, "said": output.splitlines()[-1:]})
    said = done.stdout.splitlines()
    failed = [line for line in said if line.startswith(("FAILED", "ERROR"))]
    falsified = [line for line in said if "Falsifying" in line]
    return Verdict(
        done.returncode == 0,
        "passed" if done.returncode == 0 else "failed",
        {"failed": failed, "falsified": falsified, "said": said[-1:]},
    )


def _properties(folder: Path, number: int) -> Verdict:  # noqa: ARG001
    seed = f"--hypothesis-seed={number + 1}"
    settings = {"TESTBED_TEST_EXAMPLES": str(MORE_EXAMPLES)}
    return _tested([seed, "-m", "not processes and not containers", *property_tests()], settings)


def _convergence(folder: Path, number: int) -> Verdict:  # noqa: ARG001
    """Seeds that no earlier try had."""
    return _tested(["tests/convergence"], {"TESTBED_TEST_FIRST_SEED": str(1 + 2 * number)})


def _algorithms(folder: Path, number: int) -> Verdict:  # noqa: ARG001
    """All of them in containers, where CI has one for each way that messages take; skipped without an Engine."""
    return _tested(["tests/contract", "-k", "every_algorithm"], {"TESTBED_TEST_ALL_ALGORITHMS": "yes"})


SOAK = Soak(
    name="seeds",
    about="more examples of property tests, what learns better over other seeds, all algorithms in containers",
    cases=(Case("properties", _properties), Case("convergence", _convergence), Case("algorithms", _algorithms)),
    tries=lambda _: 20,
    wanted=lambda tries, _: tries,
)
