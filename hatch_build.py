"""The hook of `pip install` and `python -m build` that puts the fabric's compiled core into a wheel.

Takes the project's folder, gives the library and the wheel's platform; an editable install gets the library in place.
It is compiled by the C compiler there is. Where there is none, the build requires the package `ziglang`, which has one.
Where that is missing too, as without build isolation, the wheel has no library, and the fabric runs in Python.

TESTBED_CORE, as set by scripts/wheels: `none` leaves the library out, and a kind of machine, such as `aarch64`, has it
compiled by `ziglang` for all of that kind.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOR = "TESTBED_CORE"
NONE = "none"
_FOLDER = "testbed/engines/fabric/native_plane"


class CoreHook(BuildHookInterface[Any]):
    """Compiles the core for each wheel; only Linux has a fabric."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        wanted = os.environ.get(FOR, "")
        if not _is_possible() or wanted == NONE:
            return []
        core = _compile_core(self.root)
        has_compiler = not wanted and any(core.works(each) for each in core.installed())
        return [] if has_compiler else [core.ZIGLANG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wanted = os.environ.get(FOR, "")
        if not _is_possible() or wanted == NONE:
            return
        core = _compile_core(self.root)
        if version == "editable":
            self._compile(core, core.LIBRARY, [])
            return
        self._folder = tempfile.TemporaryDirectory(prefix="testbed-core-")
        made = Path(self._folder.name, core.LIBRARY.name)
        if self._compile(core, made, core.zig(wanted) if wanted else []):
            build_data["force_include"][str(made)] = f"{_FOLDER}/{made.name}"
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform(wanted, core.GLIBC)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    def _compile(self, core: ModuleType, output: Path, compiler: list[str]) -> bool:
        """Whether there is a library now; one for a given machine must be had."""
        try:
            core.compile_core(output, compiler)
        except core.CannotCompile as problem:
            if compiler:
                raise
            self.app.display_warning(f"the fabric will run in Python, about seven times slower: {problem}")
            return False
        return True


def _is_possible() -> bool:
    return sys.platform.startswith("linux")


def _compile_core(root: str) -> ModuleType:
    """The project's own module, which cannot be imported by name: testbed is not installed yet."""
    spec = importlib.util.spec_from_file_location("compile_core", Path(root, _FOLDER, "compile_core.py"))
    assert spec is not None  # noqa: S101 - it is a Python file
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _platform(machine: str, glibc: str) -> str:
    """The wheel's platform: all machines of a kind, or those like this one."""
    if machine:
        return f"manylinux_{glibc.replace('.', '_')}_{machine}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
