"""Writes a result file completely or not at all.

Takes a path and its contents, gives nothing, touches that one file (and, for a moment, a neighbour of it).
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from testbed.errors import UsageProblem


def write_atomically(path: str | Path, data: bytes | str) -> None:
    """Writes `data` (text as UTF-8) to `path`: a reader sees the old file or the new one, never a part."""
    target = Path(path)
    if target.is_dir():
        raise UsageProblem(f"cannot write {target}: it is a directory", "give the name of a file in it")
    if target.is_symlink():
        target = target.resolve()  # replaces the link's target, not the link
    contents = data.encode() if isinstance(data, str) else data
    if target.exists() and not target.is_file():
        _write_in_place(target, contents)
        return
    try:
        _replace(target, contents)
    except OSError as problem:
        raise _unwritable(target, problem) from problem


def _replace(target: Path, contents: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(contents)
        # Not mkstemp's 0600: a result keeps its old mode, or gets that of a new file.
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _write_in_place(target: Path, contents: bytes) -> None:
    """Writes to a device or pipe (such as /dev/stdout), which cannot be replaced."""
    try:
        target.write_bytes(contents)
    except OSError as problem:
        raise _unwritable(target, problem) from problem


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _unwritable(target: Path, problem: OSError) -> UsageProblem:
    reason = (problem.strerror or type(problem).__name__).lower()
    hint = "make the directory first" if isinstance(problem, FileNotFoundError) else "choose a place you may write to"
    return UsageProblem(f"cannot write {target}: {reason}", hint)
