"""Programs in C that try the fabric's compiled core: `core/` beside this file, linked with the core's own sources.

Takes a compiler, gives a program; touches its output only.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from testbed.engines.fabric.native_plane.compile_core import CORE, command

_HERE = Path(__file__).with_name("core")
_SHARED = ("network.c", "ledger.c", "allocations.c")
_FUZZED = (*_SHARED, "story.c")
SOURCES = {
    "fuzz_forwarder": (*_FUZZED, "fuzz_forwarder.c"),
    "fuzz_plane": (*_FUZZED, "device.c", "fuzz_plane.c"),
    "steady_state": (*_SHARED, "steady_state.c"),
}
FUZZERS = ("fuzz_forwarder", "fuzz_plane")
SANITIZERS = ("address", "undefined")
_REPLACED = {
    "allocations.c": ("malloc", "calloc", "realloc", "free"),
    "device.c": ("clock_gettime", "preadv2", "pwritev2", "syscall", "fputs", "fwrite"),
}
"""Functions of the C library whose place a source takes."""


class CannotBuild(Exception):
    """What the compiler said."""


def build(name: str, output: Path, compiler: Sequence[str], *, sanitizers: Sequence[str] = ()) -> Path:
    """A fuzzer gets a `main` of its own, unless libFuzzer (the sanitizer `fuzzer`) has one. Raises CannotBuild."""
    names = SOURCES[name]
    is_replayed = name in FUZZERS and "fuzzer" not in sanitizers
    mine = [_HERE / each for each in (*names, *(("replay.c",) if is_replayed else ()))]
    words = command(compiler, output, [*sorted(CORE.glob("*.c")), *mine], sanitizers=sanitizers)
    words = [word for word in words if word != "-shared"]
    replaced = [function for each in names for function in _REPLACED.get(each, ())]
    words += [f"-Wl,--wrap={function}" for function in replaced]
    if "fuzzer" in sanitizers:
        words += ["-O2", "-fno-sanitize-coverage=trace-cmp"]  # stories have no words to be guessed
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise CannotBuild(done.stderr)
    return output
