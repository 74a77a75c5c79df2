"""How a process gives up what it no longer needs. Takes who to be, gives nothing; touches the calling process."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from testbed.engines.kernel import drop_capabilities, empty_bounding_set, no_new_privileges


class User(NamedTuple):
    """Who a process is."""

    uid: int
    gid: int


def drop_privileges(user: User | None = None) -> None:
    """No capability is left, none can come back, and the process is that user; without one it stays who it is."""
    with suppress(PermissionError):  # an ordinary user has none to give up
        empty_bounding_set()
    if user is not None and (user.uid, user.gid) != (os.getuid(), os.getgid()):
        os.setgroups([])
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
    drop_capabilities()
    no_new_privileges()
