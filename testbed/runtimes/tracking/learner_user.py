"""Who learners are where root has started the run.

Takes nothing, gives a user; asks who there is. What learners write is root's on disk, since the view that they have of
it maps one to the other (`isolation/view`).
"""

from __future__ import annotations

import os
from contextlib import suppress

from testbed.errors import CouldNotStart
from testbed.isolation.sandbox import LearnerUser

LEARNERS = range(61184, 65520)
"""User ids that systemd gives to services for as long as they run, and nobody to people."""


def unused_user() -> LearnerUser:
    """One whom neither an account nor a process has."""
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
