"""What a machine may deny to a node that sets up its network, as values: which step, why, what to do.

Takes a step and an error's number, gives a `NetworkDenied`; touches nothing.
"""

from __future__ import annotations

import errno

from testbed.engines.steps import Step
from testbed.errors import PreflightRefused

_OTHERWISE = "or run without a network of its own: --engine none"
_HINTS = {
    (Step.USER_NAMESPACE, errno.ENOSPC): "raise it: sysctl user.max_user_namespaces=10000 (and max_net_namespaces)",
    (Step.USER_NAMESPACE, errno.EPERM): (
        "this machine denies user namespaces to ordinary users: allow them (sysctl kernel.unprivileged_userns_clone=1 "
        "on Debian, kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu), or run as root; in a container the "
        "seccomp profile must allow unshare"
    ),
    (Step.USER_NAMESPACE, errno.EACCES): (
        "the maps of the user namespace cannot be written: the process changed its user before, or /proc is not its own"
    ),
    (Step.USER_NAMESPACE, errno.EINVAL): "the process has several threads, or this kernel has no user namespaces",
    (Step.NAMESPACE, errno.ENOSPC): "raise it: sysctl user.max_net_namespaces=10000",
    (Step.NAMESPACE, errno.EPERM): "root without CAP_SYS_ADMIN: run as an ordinary user, or give the container it",
    (Step.TUN_DEVICE, errno.ENOENT): "load the module (modprobe tun); in a container give it --device /dev/net/tun",
    (Step.TUN_DEVICE, errno.ENODEV): "the kernel has no TUN: modprobe tun",
    (Step.TUN_DEVICE, errno.EACCES): "make it open to all, as udev does: chmod 666 /dev/net/tun",
    (Step.TUN_DEVICE, errno.EPERM): "the container's device rules deny it: give it --device /dev/net/tun",
    (Step.TUN, errno.EPERM): "CAP_NET_ADMIN is missing in this namespace",
    (Step.ROUTE, errno.ENOENT): "the kernel has no such congestion control: modprobe it, or plan another",
    (Step.ROUTE, errno.EINVAL): "the kernel has no such congestion control: modprobe it, or plan another",
}


class NetworkDenied(PreflightRefused):
    """This machine denied a step; `step` and `reason` say which one and why, `hint` what to do."""

    def __init__(self, step: Step, reason: str, number: int = 0) -> None:
        hint = _HINTS.get((step, number), "")
        super().__init__(f"{step} was denied: {reason}", f"{hint}; {_OTHERWISE}" if hint else _OTHERWISE)
        self.step = step
        self.reason = reason
        self.number = number
