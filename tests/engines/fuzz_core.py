"""Fuzzes the fabric's compiled core with libFuzzer: frames, and calls of the control plane, in any order.

    scripts/fuzz-core [--corpus FOLDER] [SECONDS]

tells what the fuzzers found and how far they came. Inputs that lead to new places are kept in the corpus, if one is
given; an input that fails is written to the working directory.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.engines.core_programs import FUZZERS, SANITIZERS, CannotBuild, build

COMPILER = ("clang",)
LONGEST_INPUT = 200
"""More calls than that seldom find more, and take longer."""
LONGEST_S = 100
"""Of one input: longer than that, and the core hangs."""
_DONE = re.compile(r"Done (\d+) runs")
_COVERED = re.compile(r"cov: (\d+) ft: (\d+)")


class Fuzzed(NamedTuple):
    is_sound: bool
    runs: int
    covered: int
    """Edges of the control flow."""
    said: str


def fuzz(fuzzer: Path, corpus: Path, seconds: float) -> Fuzzed:
    """What came of so many seconds; the failing input, if any, is in the working directory."""
    words = [
        *(str(fuzzer), f"-max_total_time={seconds:.0f}", f"-max_len={LONGEST_INPUT}", f"-timeout={LONGEST_S}"),
        *("-detect_leaks=0", f"-artifact_prefix={fuzzer.name}-", str(corpus)),
    ]  # leaks are counted by the fuzzed programs themselves, input by input
    settings = {"ASAN_OPTIONS": "quarantine_size_mb=16"}
    done = subprocess.run(words, capture_output=True, errors="replace", env={**os.environ, **settings}, check=False)
    runs, covered = _DONE.search(done.stderr), _COVERED.findall(done.stderr)
    return Fuzzed(done.returncode == 0, int(runs[1]) if runs else 0, int(covered[-1][0]) if covered else 0, done.stderr)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Fuzzes the fabric's compiled core.")
    parser.add_argument("seconds", nargs="?", type=float, default=120.0, help="in all (default: 120)")
    parser.add_argument("--corpus", type=Path, help="a folder with inputs, which is added to")
    given = parser.parse_args(words)
    ended = 0
    with tempfile.TemporaryDirectory(prefix="testbed-fuzz-") as folder:
        for name in FUZZERS:
            corpus = (given.corpus or Path(folder)) / f"corpus-{name}"
            corpus.mkdir(parents=True, exist_ok=True)
            try:
                fuzzer = build(name, Path(folder, name), COMPILER, sanitizers=("fuzzer", *SANITIZERS))
            except (CannotBuild, OSError) as problem:
                sys.stderr.write(f"{problem}\nfuzzing needs clang with libFuzzer: apt-get install clang\n")
                return 2
            found = fuzz(fuzzer, corpus, given.seconds / len(FUZZERS))
            print(f"{name}: {found.runs} inputs, {found.covered} edges covered", flush=True)
            if not found.is_sound:
                sys.stderr.write(found.said)
                ended = 1
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
