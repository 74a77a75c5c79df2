"""What a process sees of this machine's files: nothing but what is listed.

Takes a list of places, gives nothing; touches the calling process's mount namespace, which must be its own. A place
has the same path inside as outside: names in plans, in tracebacks and in `sys.path` stay good.
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

_STAGE = "/tmp"  # noqa: S108 - a folder that is everywhere; what is mounted there, only this process sees
_ROOM = "mode=755,size=4m"
_MOST_LINKS = 40


class PathKind(StrEnum):
    """How a place is seen."""

    READ = "read"
    WRITE = "write"
    EMPTY = "empty"
    """A new folder in memory, to write to."""
    HIDDEN = "hidden"
    """A folder with nothing in it but what else is listed."""
    PROCESSES = "processes"
    """/proc, of the process's own namespace."""


class VisiblePath(msgspec.Struct, frozen=True):
    path: str
    """Absolute."""
    kind: PathKind = PathKind.READ
    source: str = ""
    """What is seen there, if not what is there."""
    is_own: bool = False
    """Where the process is another user than who starts it: what the place's owner owns is that user's there."""


def enter_view(places: Iterable[VisiblePath], user: tuple[int, int] | None = None) -> None:
    """The root folder has these places in it, and can be written to nowhere else; raises OSError for what is denied.

    `user` and group are who the process will be, where it is root and will not stay that.

    A place to read from that is not there is left out. The working directory stays, though there may be nothing in it.
    """
    keep_mounts_private()
    working = os.getcwd()
    links: dict[str, str] = {}
    real: dict[str, VisiblePath] = {}
    for each in places:  # of two with the same path the later one counts
        place = _resolved(each, links)
        real[place.path] = place
    _resolved(VisiblePath(working), links)
    with ExitStack() as held:
        trees = list(_cloned(sorted(real.values(), key=lambda each: each.path.split("/")), _Owners(user, held)))
    mount_memory(_STAGE, _ROOM)
    # Links come first: what they lead to is made at its real path anyway.
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
    with suppress(OSError):  # below a place that is read-only and has none of that name
        os.makedirs(_STAGE + os.path.realpath(working), exist_ok=True)
    pivot(_STAGE)
    for path in (*hidden, "/"):
        make_read_only(path)
    with suppress(OSError):
        os.chdir(working)


class _Owners:
    """Namespaces of users in which owners of places are another user: one for each owner."""

    def __init__(self, user: tuple[int, int] | None, held: ExitStack) -> None:
        self._user = user
        self._held = held
        self._made: dict[tuple[int, int], int] = {}

    def of(self, place: VisiblePath, path: str) -> int | None:
        """None where everybody stays who they are."""
        if self._user is None or not place.is_own:
            return None
        found = os.stat(path)
        owner = found.st_uid, found.st_gid
        if owner not in self._made:
            self._made[owner] = self._held.enter_context(owner_as(owner, *self._user))
        return self._made[owner]


def _cloned(places: Iterable[VisiblePath], owners: _Owners) -> Iterator[tuple[VisiblePath, int | None]]:
    """Before anything is mounted over them; None for what is made anew."""
    covered, is_own = "", False
    for place in places:
        if place.kind not in (PathKind.READ, PathKind.WRITE):
            covered = ""
            yield place, None
            continue
        is_part = place.kind is PathKind.READ and not place.source and place.is_own <= is_own
        if covered and is_part and place.path.startswith(covered):
            continue  # it is seen already, as part of another place
        source = place.source or place.path
        if place.kind is PathKind.READ and not os.path.lexists(source):
            continue
        yield place, _tree(place, source, owners)
        if not place.source:
            covered, is_own = place.path.rstrip("/") + "/" if place.kind is PathKind.READ else "", place.is_own


def _tree(place: VisiblePath, source: str, owners: _Owners) -> int:
    """What is only read may lie on a file system that lets nobody stand for others: others may read it there, too."""
    read_only = place.kind is PathKind.READ
    try:
        return cloned(source, read_only=read_only, owner=owners.of(place, source))
    except OSError as problem:
        if problem.errno != errno.EINVAL or not read_only or not place.is_own:
            raise
        return cloned(source, read_only=True)


def _resolved(place: VisiblePath, links: dict[str, str]) -> VisiblePath:
    """At its real path; `links` are those on the way to it, which the view must have, too."""
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
