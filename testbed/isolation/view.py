"""A process's view of the file system: only the listed paths exist.

Takes a list of paths, gives nothing; touches the calling process's mount namespace, which must be its own. A path is
the same inside as outside, so that names in plans, in tracebacks and in `sys.path` stay valid.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from enum import StrEnum

import msgspec

from testbed.isolation.mounts import (
    attach,
    cloned,
    keep_mounts_private,
    make_read_only,
    mount_memory,
    mount_processes,
    pivot,
)
from testbed.isolation.namespaces import owner_as
from testbed.limits import TMP_OPTIONS

_STAGE = "/tmp"  # noqa: S108 - a folder that is everywhere; only this process sees what is mounted there
_ROOM = "mode=755,size=4m"
_MOST_LINKS = 40


class PathKind(StrEnum):
    """How a path appears in a view."""

    READ = "read"
    WRITE = "write"
    EMPTY = "empty"
    """A new, writable folder in memory."""
    HIDDEN = "hidden"
    """A folder that shows only other listed paths."""
    PROCESSES = "processes"
    """/proc of the process's own PID namespace."""


class VisiblePath(msgspec.Struct, frozen=True):
    path: str
    """Absolute path, inside and outside."""
    kind: PathKind = PathKind.READ
    source: str = ""
    """The path that is shown there instead, if any."""
    is_own: bool = False
    """Where the process runs as another user: what the path's owner owns appears as that user's."""


def enter_view(places: Iterable[VisiblePath], user: tuple[int, int] | None = None) -> None:
    """Replaces the root folder by one that shows only these paths, read-only elsewhere; raises OSError where denied.

    `user`: user and group that the process will become, where it is root now.

    A path to read that does not exist is left out. The working directory stays, though it may be empty.
    """
    keep_mounts_private()
    working = os.getcwd()
    links: dict[str, str] = {}
    real: dict[str, VisiblePath] = {}
    for each in places:  # of two with the same path the later one wins
        place = _resolved(each, links)
        real[place.path] = place
    _resolved(VisiblePath(working), links)
    with ExitStack() as held:
        trees = list(_cloned(sorted(real.values(), key=lambda each: each.path.split("/")), _Owners(user, held)))
    mount_memory(_STAGE, _ROOM)
    # Links come first: their targets are made at their real paths anyway.
    for path, target in links.items():
        with suppress(FileExistsError):
            os.makedirs(os.path.dirname(_STAGE + path), exist_ok=True)
            os.symlink(target, _STAGE + path)
    hidden = []
    for place, tree in trees:
        inside = _STAGE + place.path
        if tree is None or os.path.isdir(f"/proc/self/fd/{tree}"):
            os.makedirs(inside, exist_ok=True)
        else:
            _make_file(inside)
        if tree is not None:
            attach(tree, inside)
            os.close(tree)
        elif place.kind is PathKind.PROCESSES:
            mount_processes(inside)
        else:
            mount_memory(inside, TMP_OPTIONS if place.kind is PathKind.EMPTY else _ROOM)
            hidden += [place.path] if place.kind is PathKind.HIDDEN else []
    with suppress(OSError):  # below a read-only path that has no such folder
        os.makedirs(_STAGE + os.path.realpath(working), exist_ok=True)
    pivot(_STAGE)
    for path in (*hidden, "/"):
        make_read_only(path)
    with suppress(OSError):
        os.chdir(working)


class _Owners:
    """User namespaces that map the owners of paths to the view's user: one for each owner."""

    def __init__(self, user: tuple[int, int] | None, held: ExitStack) -> None:
        self._user = user
        self._held = held
        self._made: dict[tuple[int, int], int] = {}

    def of(self, place: VisiblePath, path: str) -> int | None:
        """A descriptor of the user namespace for a path; None where owners stay as they are."""
        if self._user is None or not place.is_own:
            return None
        found = os.stat(path)
        owner = found.st_uid, found.st_gid
        if owner not in self._made:
            self._made[owner] = self._held.enter_context(owner_as(owner, *self._user))
        return self._made[owner]


def _cloned(places: Iterable[VisiblePath], owners: _Owners) -> Iterator[tuple[VisiblePath, int | None]]:
    """Clones the paths before anything is mounted over them; None for paths that are newly made."""
    covered, is_own = "", False
    for place in places:
        if place.kind not in (PathKind.READ, PathKind.WRITE):
            covered = ""
            yield place, None
            continue
        is_part = place.kind is PathKind.READ and not place.source and place.is_own <= is_own
        if covered and is_part and place.path.startswith(covered):
            continue  # it is visible already, as part of another path
        source = place.source or place.path
        if place.kind is PathKind.READ and not os.path.lexists(source):
            continue
        yield place, _tree(place, source, owners)
        if not place.source:
            covered, is_own = place.path.rstrip("/") + "/" if place.kind is PathKind.READ else "", place.is_own


def _tree(place: VisiblePath, source: str, owners: _Owners) -> int:
    """Clones a path; a read-only one is cloned without mapping owners where its file system does not support that."""
    read_only = place.kind is PathKind.READ
    try:
        return cloned(source, read_only=read_only, owner=owners.of(place, source))
    except OSError as problem:
        if problem.errno != errno.EINVAL or not read_only or not place.is_own:
            raise
        return cloned(source, read_only=True)


def _resolved(place: VisiblePath, links: dict[str, str]) -> VisiblePath:
    """The same at its real path; adds the links on the way to `links`, which the view must have, too."""
    if not os.path.isabs(place.path):
        raise OSError(errno.EINVAL, f"{place.path} is no whole path")
    path = os.path.normpath(place.path)
    for _ in range(_MOST_LINKS):
        link = _first_link(path)
        if link is None:
            break
        target = links[link] = os.readlink(link)
        rest = path[len(link) :]
        path = os.path.normpath(os.path.join(os.path.dirname(link), target) + rest)
    return msgspec.structs.replace(place, path=path)


def _first_link(path: str) -> str | None:
    parts = path.split("/")
    for end in range(2, len(parts) + 1):
        prefix = "/".join(parts[:end])
        if os.path.islink(prefix):
            return prefix
    return None


def _make_file(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
