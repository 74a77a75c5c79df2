"""The tests of packets once more, over a compiled core with sanitizers: what is read or written wrongly ends them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from testbed.engines.fabric.native_plane.compile_core import command
from tests.engines.compiled_core import a_compiler
from tests.engines.core_programs import SANITIZERS

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PACKETS = (
    *(f"tests/network/{path.name}" for path in sorted((ROOT / "tests/network").glob("test_packets*.py"))),
    *(f"tests/engines/test_{name}.py" for name in ("forwarder", "planes", "capture")),
)
RUNTIMES = ("libasan.so", "libclang_rt.asan-x86_64.so", "libclang_rt.asan-aarch64.so")
"""What has to be loaded before Python, as compilers call it."""


def runtime(compiler: Sequence[str]) -> str:
    for name in RUNTIMES:
        words = [*compiler, f"-print-file-name={name}"]
        found = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
        if os.path.isabs(found) and os.path.exists(found):
            return found
    pytest.skip("the C compiler has no sanitizers")


def test_the_packet_tests_pass_over_a_core_with_sanitizers(tmp_path: Path) -> None:
    compiler = a_compiler()
    core = tmp_path / "fabric_core.so"
    settings = {
        "LD_PRELOAD": runtime(compiler),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own; test_fuzz_core.py counts the core's
        "TESTBED_TEST_CORE": str(core),
        "CI": "true",  # the same examples every time
    }
    subprocess.run(command(compiler, core, sanitizers=SANITIZERS), check=True)
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.engines.other_core",
        "-m",
        "not processes",
        "-k",
        "not python",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *PACKETS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}{done.stderr[-6000:]}"
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 100, done.stdout[-2000:]
