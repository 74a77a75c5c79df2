"""What learners have written, made safe for others and given to who ran testbed, once all of them are dead.

Takes a run directory; touches modes and owners of its files. A learner may leave programs that run as whoever owns
them (set-id bits), links to anything, and folders in each other without end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from testbed.linux import open_flags
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.removal import clear_away

_DEEPEST = 40
"""Folders in each other; further down there is no result."""
_SET_ID = stat.S_ISUID | stat.S_ISGID
_PRIVATE = 0o700
_FLAGS = os.O_RDONLY | open_flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")


def keep_private(run: RunDirectory) -> None:
    """As long as learners write there, nobody else than the run's user can start what they make, or be fooled by it."""
    run.nodes.chmod(_PRIVATE)


def hand_over(run: RunDirectory) -> None:
    """Nothing that learners have left acts for its owner, and who called `sudo` owns it; may be repeated.

    For whoever owns the run; of a run directory that is gone nothing is left to be done.
    """
    with suppress(OSError):
        _make_safe(run.nodes)
        owner = _caller()
        if owner is not None:
            _give(run.path, *owner)
            results = run.path.parent
            if owner[0] == results.parent.stat().st_uid != results.stat().st_uid == 0:  # made for this run
                os.chown(results, *owner, follow_symlinks=False)
        run.nodes.chmod(stat.S_IMODE(run.path.stat().st_mode))


def _caller() -> tuple[int, int] | None:
    if os.geteuid() != 0:
        return None
    try:
        return int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
    except (KeyError, ValueError):
        return None


def _make_safe(nodes: Path) -> None:
    for folder, entry in _entries(nodes):
        info = entry.stat(follow_symlinks=False)
        if info.st_mode & _SET_ID and not stat.S_ISLNK(info.st_mode):
            with suppress(OSError):
                os.chmod(entry.name, stat.S_IMODE(info.st_mode) & ~_SET_ID, dir_fd=folder)


def _give(top: Path, uid: int, gid: int) -> None:
    """What is root's. Links are not followed: a learner may have made them."""
    os.chown(top, uid, gid, follow_symlinks=False)
    for folder, entry in _entries(top):
        if entry.stat(follow_symlinks=False).st_uid == 0:
            with suppress(OSError):
                os.chown(entry.name, uid, gid, dir_fd=folder, follow_symlinks=False)


def _entries(top: Path) -> Iterator[tuple[int, os.DirEntry[str]]]:
    """All that is below, each with a descriptor of its folder; what lies too deep is removed."""
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        names = waiting.pop()
        try:
            folder = _opened(top, names)
        except OSError:
            continue
        try:
            with os.scandir(folder) as entries:
                there = list(entries)
            for entry in there:
                yield folder, entry
                if not entry.is_dir(follow_symlinks=False):
                    continue
                if len(names) < _DEEPEST:
                    waiting.append((*names, entry.name))
                else:
                    clear_away(Path(f"/proc/self/fd/{folder}/{entry.name}"))
        finally:
            os.close(folder)


def _opened(top: Path, names: Iterable[str]) -> int:
    """However many folders there are, few are open at a time; one that a learner has closed is opened."""
    folder = os.open(top, _FLAGS)
    for name in names:
        try:
            below = _opened_in(folder, name)
        finally:
            os.close(folder)
        folder = below
    return folder


def _opened_in(folder: int, name: str) -> int:
    with suppress(PermissionError):
        return os.open(name, _FLAGS, dir_fd=folder)
    os.chmod(name, _PRIVATE, dir_fd=folder)
    return os.open(name, _FLAGS, dir_fd=folder)
