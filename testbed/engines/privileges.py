"""Drops privileges. Takes a user, gives nothing; touches the calling process.

Imports little, since a container's first process imports it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from testbed.engines.kernel import drop_capabilities, empty_bounding_set, no_new_privileges


class User(tuple[int, int]):
    """User and group of a process. No `NamedTuple`: `typing` takes longer to load than all else here."""

    __slots__ = ()

    def __new__(cls, uid: int, gid: int) -> User:
        return super().__new__(cls, (uid, gid))

    def __getnewargs__(self) -> tuple[int, int]:
        return self.uid, self.gid

    def __repr__(self) -> str:
        return f"User(uid={self.uid}, gid={self.gid})"

    @property
    def uid(self) -> int:
        return self[0]

    @property
    def gid(self) -> int:
        return self[1]


@contextmanager
def acting_as(user: User) -> Iterator[None]:
    """Acts as that user for a while: even root may be denied access to other users' folders."""
    os.setgroups([])
    os.setegid(user.gid)
    os.seteuid(user.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def drop_privileges(user: User | None = None) -> None:
    """Drops all capabilities for good, and becomes `user` if one is given."""
    with suppress(PermissionError):  # an ordinary user has none to drop
        empty_bounding_set()
    if user is not None and user != (os.getuid(), os.getgid()):
        os.setgroups([])
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
    drop_capabilities()
    no_new_privileges()
