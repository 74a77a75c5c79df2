"""Checks of `testbed doctor` that work on every system, and all checks of a system that is not Linux.

Takes nothing, gives checks as data; asks the Docker Engine. There virtual time runs, and real processes do not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from testbed.cores import usable_cores
from testbed.linux import HAS_LINUX, NEED_LINUX, has_unix_sockets


class Check(NamedTuple):
    """One line of `testbed doctor`."""

    name: str
    ok: bool
    found: str
    hint: str = ""
    required: bool = False
    """Whether runs of real processes need it to be what was asked for."""


def checks() -> Iterator[Check]:
    """All checks of a system that is not Linux; the most important first."""
    yield Check("emulated network", False, NEED_LINUX, HAS_LINUX, True)
    yield Check("virtual time", True, f"--runtime sim, in one process; not tested on {sys.platform}")
    yield Check("cores", True, f"{usable_cores()}")
    yield containers() if has_unix_sockets() else Check("containers", False, NEED_LINUX, HAS_LINUX)


def containers() -> Check:
    """Whether runs in containers are possible."""
    from testbed.runtimes.docker.image_facts import DEFAULT_TAG
    from testbed.runtimes.docker.preflight import why_no_containers

    reason = why_no_containers(DEFAULT_TAG)
    if reason is None:
        return Check("containers", True, f"an Engine has {DEFAULT_TAG}: `deploy` takes them by itself")
    return Check("containers", False, reason, "only runs of containers need an Engine and `testbed build`")
