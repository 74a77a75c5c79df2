"""Packages as files, for a build that fetches nothing: a folder that the user gives, or what pip gets together here.

Takes a folder or requirements, gives wheels by name; runs pip, which writes to a folder of the caller's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from testbed.errors import CouldNotStart, PreflightRefused, UsageProblem

WHEELS = "image/wheels"
"""Where a build looks for them."""
_LAST = 6


def wheels_in(folder: Path) -> dict[str, Path]:
    """The wheels of a folder, by the name that a build has for them."""
    try:
        found = {f"{WHEELS}/{path.name}": path for path in sorted(folder.glob("*.whl")) if path.is_file()}
    except OSError as problem:
        raise UsageProblem(f"--wheels {folder}: {problem.strerror or problem}") from None
    if not folder.is_dir():
        raise UsageProblem(f"--wheels {folder}: there is no such folder")
    if not found:
        raise UsageProblem(
            f"--wheels {folder}: no wheels in it", "`pip wheel -c constraints.txt -w FOLDER .` gets them together"
        )
    return found


def collect(requirements: bytes, constraints: bytes, folder: Path, python: str) -> dict[str, Path]:
    """What pip here finds for these requirements; refuses where it would find what the image's Python cannot use."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if python.split(".")[:2] != here.split(".") or sys.platform != "linux":
        raise PreflightRefused(
            f"pip takes packages from folders of this machine, for Python {here}; the image has Python {python}",
            "get wheels for that together and give them with --wheels, or name an index that containers can reach",
        )
    (folder / "requirements.txt").write_bytes(requirements)
    (folder / "constraints.txt").write_bytes(constraints)
    wheels = folder / "wheels"
    command = [
        *(
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--disable-pip-version-check",
            "--prefer-binary",
            "--progress-bar",
            "off",
        ),
        *("--requirement", str(folder / "requirements.txt"), "--constraint", str(folder / "constraints.txt")),
        *("--wheel-dir", str(wheels)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)  # noqa: S603
    except OSError as problem:
        raise CouldNotStart(f"cannot run pip: {problem.strerror or problem}") from None
    if done.returncode:
        said = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()][-_LAST:]
        shown = "\n".join(f"  | {line}" for line in said)
        raise CouldNotStart(f"pip could not get the packages together:\n{shown}")
    return wheels_in(wheels)
