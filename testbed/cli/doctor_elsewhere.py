"""What can run on a system that is not Linux: all that is in virtual time, and nothing of real processes.

Takes nothing, gives checks as data; starts nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from testbed.cli.doctor_check import Check
from testbed.cores import usable_cores
from testbed.linux import HAS_LINUX, NEED_LINUX, has_unix_sockets


def checks() -> Iterator[Check]:
    """What matters most comes first."""
    yield Check("emulated network", False, NEED_LINUX, HAS_LINUX, True)
    yield Check("virtual time", True, f"--runtime sim, in one process; not tested on {sys.platform}")
    yield Check("cores", True, f"{usable_cores()}")
    if has_unix_sockets():
        from testbed.cli.doctor_containers import containers

        yield containers()
    else:
        yield Check("containers", False, NEED_LINUX, HAS_LINUX)
