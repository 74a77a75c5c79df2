"""Owners of learners' processes and files in a run that root has started, and files that are safe for other users.

Takes a run directory; touches modes and owners of its files; reads accounts and processes. While learners run, they
have an unused user id; their mounts map root, the owner of their files on disk, to it (`isolation/view`). After all
have ended, their files are made safe and given to the user of `sudo`: a learner may leave programs with set-id bits,
links to anything, and very deeply nested folders.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from testbed.errors import CouldNotStart
from testbed.isolation.sandbox import LearnerUser
from testbed.linux import open_flags
from testbed.rundir import RunDirectory
from testbed.runtimes.tracking.removal import clear_away

LEARNERS = range(61184, 65520)
"""User ids that systemd reserves for services while they run; they belong to no account."""
_DEEPEST = 40
"""The depth of nested folders that is kept; no result lies deeper."""
_SET_ID = stat.S_ISUID | stat.S_ISGID
_PRIVATE = 0o700
_FLAGS = os.O_RDONLY | open_flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")


def unused_user() -> LearnerUser:
    """A user id that neither an account nor a process has."""
    import pwd  # not there on Windows

    taken = {each.pw_uid for each in pwd.getpwall()}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                taken.add(os.stat(f"/proc/{name}").st_uid)
    uid = next((each for each in LEARNERS if each not in taken), None)
    if uid is None:
        raise CouldNotStart(f"no user id between {LEARNERS.start} and {LEARNERS.stop - 1} is free for learners")
    return LearnerUser(uid, uid)


def keep_private(run: RunDirectory) -> None:
    """Closes the nodes' folder to other users while learners write there, who may leave programs or links."""
    run.nodes.chmod(_PRIVATE)


def hand_over(run: RunDirectory) -> None:
    """Clears set-id bits of learners' files, and gives the files to the caller of `sudo`. May be repeated.

    The calling user must own the run. A missing run directory is ignored.
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
    """Gives root's files to the user. Links are not followed: a learner may have made them."""
    os.chown(top, uid, gid, follow_symlinks=False)
    for folder, entry in _entries(top):
        if entry.stat(follow_symlinks=False).st_uid == 0:
            with suppress(OSError):
                os.chown(entry.name, uid, gid, dir_fd=folder, follow_symlinks=False)


def _entries(top: Path) -> Iterator[tuple[int, os.DirEntry[str]]]:
    """All entries below, each with a descriptor of its folder. Removes what lies too deep."""
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
    """A descriptor of a nested folder. At most two are open at a time. Unreadable folders are made readable."""
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
