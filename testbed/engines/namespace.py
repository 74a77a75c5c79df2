"""Enters a new network namespace: empty, with its loopback up and TCP's settings as planned.

Takes settings, gives nothing; touches the calling process, which must have one thread.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from testbed.engines.attempt import during
from testbed.engines.denied import NetworkDenied
from testbed.engines.kernel import CLONE_NEWNET, enter_user_namespace, unshare
from testbed.engines.steps import Step
from testbed.engines.tun import bring_up
from testbed.plan.tcp import TcpSettings as TcpSettings  # re-exported
from testbed.plan.tcp import settings_of

_SYSCTLS = Path("/proc/sys/net/ipv4")
_NO_IPV6 = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
"""Does not exist where the kernel has no IPv6."""


def enter_namespace(tcp: TcpSettings) -> None:
    """Moves the process into a new network; for an ordinary user, inside a new user namespace."""
    _leave_network()
    with during(Step.LOOPBACK):
        bring_up("lo")
    with during(Step.SETTINGS):
        for name, value in settings_of(tcp, os.getgid()).items():
            (_SYSCTLS / name).write_text(value)
        if _NO_IPV6.exists():  # the fabric carries no IPv6; this saves it the neighbour discovery
            _NO_IPV6.write_text("1")


def _leave_network() -> None:
    try:
        with during(Step.NAMESPACE):
            unshare(CLONE_NEWNET)  # allowed to root, also to that of a user namespace
    except NetworkDenied as denied:
        if denied.number != errno.EPERM:
            raise
        # An ordinary user, or root without CAP_SYS_ADMIN, as in a container.
        try:
            _leave_with_user_namespace()
        except NetworkDenied:
            if os.geteuid() == 0:
                raise denied from None
            raise


def _leave_with_user_namespace() -> None:
    with during(Step.USER_NAMESPACE):
        enter_user_namespace(CLONE_NEWNET)
