"""Tries that run tests: takes arguments for pytest, gives a verdict; starts pytest."""

from __future__ import annotations

import os
import subprocess
import sys

from soaks.soak import ROOT, Verdict

ALL_TESTS = {"TESTBED_TEST_SOAK": "yes"}
"""Those that CI has no time for, too."""
_LONGEST_S = 4 * 3600


def tested(words: list[str], settings: dict[str, str]) -> Verdict:
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
    is_passed = done.returncode == 0 and bool(said) and " passed" in said[-1]
    return Verdict(
        is_passed,
        "passed" if is_passed else "failed" if done.returncode else "all skipped",
        {"failed": failed, "falsified": falsified, "said": said[-1:]},
    )
