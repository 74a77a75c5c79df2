"""Shared libraries that stand for the fabric's compiled core, and machines without a compiler."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from testbed.engines.fabric.native_plane import library
from testbed.engines.fabric.native_plane.abi import SIZES
from testbed.engines.fabric.native_plane.compile_core import command, digest, installed, works

COMPILERS = ("cc", "gcc", "clang")
_SOURCE = """
#include <stdint.h>
__attribute__((visibility("default"))) uint32_t core_abi(void);
__attribute__((visibility("default"))) const uint32_t *core_sizes(void);
__attribute__((visibility("default"))) const char *core_sources(void);
__attribute__((visibility("default"))) const char *core_compiler(void);
uint32_t core_abi(void) {{ return {abi}; }}
const uint32_t *core_sizes(void) {{ static const uint32_t sizes[] = {{{sizes}}}; return sizes; }}
const char *core_sources(void) {{ return "{sources}"; }}
const char *core_compiler(void) {{ return "a compiler 1.0"; }}
"""


def a_compiler() -> Sequence[str]:
    """The first that works here; a test is skipped where none does."""
    found = next(filter(works, installed()), None)
    if found is None:
        pytest.skip("there is no C compiler here")
    return found


def make_core(
    output: Path, *, abi: int = library.ABI, sizes: Mapping[str, int] | None = None, sources: str | None = None
) -> Path:
    """A library that only says what it is; with `sizes`, some structures have others."""
    source = output.with_suffix(".c")
    told = ", ".join(map(str, {**SIZES, **(sizes or {})}.values()))
    source.write_text(_SOURCE.format(abi=abi, sizes=told, sources=digest() if sources is None else sources))
    subprocess.run(command(a_compiler(), output, [source]), check=True)
    return output


def take(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is at that path is the compiled core from now on."""
    monkeypatch.setattr(library, "LIBRARY", core)
    library.load.cache_clear()


def path_without_compilers(folder: Path) -> str:
    """A PATH with all programs of this machine but C compilers."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        if os.path.isdir(place):
            for name in os.listdir(place):
                if not name.endswith(COMPILERS) and not (folder / name).is_symlink():
                    (folder / name).symlink_to(Path(place, name))
    return str(folder)
