"""A fabric whose system calls go wrong, or take long, whichever data plane it has.

The compiled data plane calls the C library: `shim.c` is loaded before that.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from testbed.engines.fabric import start
from testbed.engines.fabric.native_plane.compile_core import installed
from testbed.engines.spawn import spawn_module

_FOLDER = tempfile.TemporaryDirectory(prefix="testbed-shim-")


@cache
def _shim() -> Path:
    compilers = installed()
    if not compilers:
        pytest.skip("there is no C compiler")
    made = Path(_FOLDER.name, "shim.so")
    source = Path(__file__).with_name("shim.c")
    subprocess.run([*compilers[0], "-shared", "-fPIC", "-D_GNU_SOURCE", source, "-o", made], check=True)
    made.chmod(0o755)
    Path(_FOLDER.name).chmod(0o755)  # other users' fabrics read it
    return made


def shim(monkeypatch: pytest.MonkeyPatch, module: str, arguments: Sequence[str], **settings: int) -> None:
    """Every fabric that is started from here is run by that module, with these settings of the shim."""
    environment = {"LD_PRELOAD": str(_shim()), **{f"SHIM_{name.upper()}": str(n) for name, n in settings.items()}}

    def start_shimmed(name: str, its: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
        assert name == "testbed.engines.fabric"
        more["more_environment"] = {**(more.get("more_environment") or {}), **environment}
        return spawn_module(module, (*arguments, *its), **more)

    monkeypatch.setattr(start, "spawn_module", start_shimmed)
