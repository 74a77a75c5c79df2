"""Writes a result file whole or not at all.

Takes a path and its contents, gives nothing, touches that one file (and, for a moment, a neighbour of it).
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from testbed.errors import UsageProblem


def write_atomically(path: str | Path, data: bytes | str) -> None:
    """Put `data` (text as UTF-8) into `path`: a reader sees the old file or the new one, never half of either."""
    target = Path(path)
    if target.is_dir():
        raise UsageProblem(f"cannot write {target}: it is a directory", "give the name of a file in it")
    if target.is_symlink():
        target = target.resolve()  # the file that it points to is replaced, not the pointer
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
        # mkstemp's 0600 is for secrets: a result keeps its old mode, or gets what any new file would.
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _write_in_place(target: Path, contents: bytes) -> None:
    """A device or a pipe (such as /dev/stdout) cannot be replaced: the bytes go into it."""
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
