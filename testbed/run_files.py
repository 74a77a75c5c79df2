"""Reads files of a run directory safely, since learners and other users may have put anything there.

Takes paths, gives their bytes; reads regular files only, never more than asked for. Symbolic links below the run
directory are not followed: they could lead to any file of the reading user.
"""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path
from typing import TypeVar

import msgspec

from testbed.linux import open_flags

_Kind = TypeVar("_Kind")

LARGEST_DOCUMENT = 16 << 20
"""Size limit of a file that is read as a whole: a summary, a record of processes."""
_NO_SURPRISE = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")


class Malformed(ValueError):
    """A file is not a document of the expected kind; says why."""


def open_plain(path: Path, within: Path) -> FileIO:
    """Opens a regular file below `within` for reading; raises OSError for anything else in its place."""
    if not path.is_relative_to(within) or path == within:
        raise OSError(errno.EINVAL, f"it is not in {within}", str(path))
    try:
        descriptor = _open(path, within)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENOTDIR):  # a link where there should be a folder is both
            raise OSError(
                problem.errno, "it, or what should be a folder on the way to it, is a link or a file"
            ) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return FileIO(descriptor, "rb")


def read_plain(path: Path, within: Path, most_bytes: int = LARGEST_DOCUMENT) -> bytes:
    """The whole content; raises OSError as `open_plain` does, and for a file that is too large."""
    with open_plain(path, within) as file:
        data = bytearray()
        while len(data) <= most_bytes and (more := file.read(most_bytes + 1 - len(data))):
            data += more
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes >> 20} MiB", str(path))
    return bytes(data)


def read_document(path: Path, within: Path, kind: type[_Kind], most_bytes: int = LARGEST_DOCUMENT) -> _Kind:
    """The JSON document in a file; raises OSError as `read_plain` does, and Malformed if it is not of that kind."""
    data = read_plain(path, within, most_bytes)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise Malformed(str(problem)) from None


def read_end(path: Path, within: Path, most_bytes: int) -> bytes:
    """The last bytes of a file; raises OSError as `open_plain` does."""
    with open_plain(path, within) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - most_bytes))
        return file.read(most_bytes) or b""


def _open(path: Path, within: Path) -> int:
    *folders, name = path.relative_to(within).parts
    if os.open not in os.supports_dir_fd:  # Windows, where no learners of other users write
        if any(each.is_symlink() for each in (path, *path.parents[: len(folders)])):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        return os.open(path, os.O_RDONLY | open_flags(*_NO_SURPRISE))
    at = os.open(within, os.O_RDONLY | open_flags("O_DIRECTORY", "O_CLOEXEC"))
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | open_flags("O_DIRECTORY", *_NO_SURPRISE), dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, os.O_RDONLY | open_flags(*_NO_SURPRISE), dir_fd=at)
    finally:
        os.close(at)
