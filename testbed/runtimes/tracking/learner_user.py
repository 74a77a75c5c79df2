"""The user of learners in a run that root has started.

Takes nothing, gives a user; reads accounts and processes. Learners' files belong to root on disk: the learners' mounts
map one user to the other (`isolation/view`).
"""

from __future__ import annotations

import os
from contextlib import suppress

from testbed.errors import CouldNotStart
from testbed.isolation.sandbox import LearnerUser

LEARNERS = range(61184, 65520)
"""User ids that systemd reserves for services while they run; they belong to no account."""


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
