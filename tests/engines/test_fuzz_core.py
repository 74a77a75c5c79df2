"""The compiled core under any frames and any calls: `core/fuzz_*.c` say what must hold, under sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.engines.compiled_core import a_compiler
from tests.engines.core_programs import FUZZERS, SANITIZERS, CannotBuild, build
from tests.engines.fuzz_core import COMPILER, fuzz

pytestmark = [pytest.mark.processes, pytest.mark.slow]

STORIES = 20_000
SECONDS = float(os.environ.get("TESTBED_TEST_FUZZ_CORE_S", "10"))
"""Of all fuzzers together; CI has two minutes."""
FRAMES = 1_000_000


def built(name: str, folder: Path, *sanitizers: str) -> Path:
    try:
        return build(name, folder / name, a_compiler(), sanitizers=sanitizers)
    except CannotBuild as problem:
        if "-lasan" in str(problem):
            pytest.skip("the C compiler has no sanitizers")
        raise


@pytest.mark.parametrize("name", FUZZERS)
def test_whatever_is_told_at_random_the_books_balance(name: str, tmp_path: Path) -> None:
    program = built(name, tmp_path, *SANITIZERS)
    settings = {"ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=16"}
    done = subprocess.run(
        [program, str(STORIES)], capture_output=True, text=True, env={**os.environ, **settings}, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", FUZZERS)
def test_the_fuzzer_finds_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which(COMPILER[0]) is None:
        pytest.skip("there is no clang, which has libFuzzer")
    try:
        fuzzer = build(name, tmp_path / name, COMPILER, sanitizers=("fuzzer", *SANITIZERS))
    except CannotBuild as problem:
        if "clang_rt" in str(problem):
            pytest.skip("clang's libFuzzer is not installed")
        raise
    (tmp_path / "corpus").mkdir()
    monkeypatch.chdir(tmp_path)
    found = fuzz(fuzzer, tmp_path / "corpus", SECONDS / len(FUZZERS))
    assert found.is_sound, found.said
    assert found.runs > 100 * SECONDS, "it hardly ran"


def test_once_warm_it_asks_for_no_memory_and_keeps_none_in_the_end(tmp_path: Path) -> None:
    program = built("steady_state", tmp_path)
    said = subprocess.run([program, str(FRAMES)], capture_output=True, text=True, check=True).stdout
    found = dict(line.split() for line in said.splitlines())
    assert (found["frames"], found["allocations"], found["kept"]) == (str(FRAMES), "0", "0")
