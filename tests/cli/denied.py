"""A machine that denies something, made with namespaces: commands see it as if it were so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKES = {
    "no TUN device": (("-Urm",), "mount -t tmpfs none /dev/net"),
    "no namespaces left": (
        ("-Ur",),
        "echo 0 > /proc/sys/user/max_user_namespaces && echo 0 > /proc/sys/user/max_net_namespaces",
    ),
    "no user namespaces": (("-U",), "true"),
}
"""What `unshare` is given, and what is done inside before the command."""


def command_where(what: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`testbed` with these arguments on such a machine; the test is skipped where it cannot be made."""
    flags, preparation = MAKES[what]
    program = shutil.which("unshare")
    if program is None:
        pytest.skip("there is no `unshare` here")
    tried = subprocess.run([program, *flags, "sh", "-c", preparation], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"such a machine cannot be made here: {tried.stderr.strip()}")
    script = f'{preparation} && exec "$@"'
    words = [program, *flags, "sh", "-c", script, "sh", sys.executable, "-m", "testbed", *arguments]
    surroundings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=surroundings)
