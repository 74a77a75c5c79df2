"""Explains a denied step of setting up a node's network: which step, why, and what to run.

Takes a step, an error number and facts about the machine, gives a `NetworkDenied`; changes nothing. One error number
has several causes; the hint names the one that the machine's settings show, with the exact command to run.
"""

from __future__ import annotations

import errno

from testbed.engines.machine_facts import MachineFacts
from testbed.engines.steps import Step
from testbed.errors import PreflightRefused

APPARMOR_RULE = "kernel.apparmor_restrict_unprivileged_userns"
"""Ubuntu's, since 23.10; 1 denies."""
DEBIAN_RULE = "kernel.unprivileged_userns_clone"
"""Debian's; 0 denies."""
USER_LIMIT, NET_LIMIT = "user.max_user_namespaces", "user.max_net_namespaces"
ENOUGH_NAMESPACES = 65536
_FEW_NAMESPACES = 1024
_OTHERWISE = "or run without a network of its own: --engine none"
_RIGHTS = (errno.EPERM, errno.EACCES, errno.EROFS)
"""Errors for something that exists but is forbidden to this process; /proc/sys is read-only in containers."""
_NETWORK = frozenset(
    {Step.NAMESPACE, Step.USER_NAMESPACE, Step.LOOPBACK, Step.SETTINGS, Step.TUN, Step.ADDRESS, Step.ROUTE}
)
"""Steps that need the rights that come with a new namespace."""
_NO_CONGESTION_CONTROL = "the kernel has no such congestion control: modprobe it, or plan another"


class NetworkDenied(PreflightRefused):
    """This machine denied a step; `step` and `reason` say which one and why, `way_out` what to do."""

    def __init__(self, step: Step, reason: str, number: int = 0, machine: MachineFacts | None = None) -> None:
        way_out = _way_out(step, number, machine or MachineFacts())
        super().__init__(f"{step} was denied: {reason}", f"{way_out}; {_OTHERWISE}" if way_out else _OTHERWISE)
        self.step = step
        self.reason = reason
        self.number = number
        self.way_out = way_out
        """Empty where the machine's files do not show the cause."""


def raised_limit(*names: str, machine: MachineFacts) -> str:
    """The command that allows enough namespaces."""
    return _sysctl(machine, *(f"{name}={ENOUGH_NAMESPACES}" for name in names))


def _way_out(step: Step, number: int, machine: MachineFacts) -> str:
    if step is Step.TUN_DEVICE:
        return _device(number, machine)
    if number == errno.ENOSPC and step in (Step.NAMESPACE, Step.USER_NAMESPACE):
        return _limits(step, machine)
    if step in _NETWORK and number in _RIGHTS:
        return _rights(step, number, machine)
    if step is Step.ROUTE and number in (errno.ENOENT, errno.EINVAL):
        return _NO_CONGESTION_CONTROL
    if (step, number) == (Step.USER_NAMESPACE, errno.EINVAL):
        return "the process has several threads, or this kernel has no user namespaces"
    return ""


def _device(number: int, machine: MachineFacts) -> str:
    match number:
        case errno.ENOENT | errno.EPERM if machine.is_container:
            return _container(machine)
        case errno.ENOENT | errno.ENODEV | errno.ENXIO:
            return f"load the kernel's module: {_sudo(machine)}modprobe tun"
        case errno.EACCES:
            return f"make it open to all, as udev does: {_sudo(machine)}chmod 666 /dev/net/tun"
        case errno.EPERM:
            return "a rule on devices denies it (DeviceAllow= of a systemd unit, a container's): allow /dev/net/tun rw"
        case _:
            return ""


def _limits(step: Step, machine: MachineFacts) -> str:
    """Names the limits that are low; where none is, all of them, since they have been reached."""
    names = (NET_LIMIT,) if step is Step.NAMESPACE else (USER_LIMIT, NET_LIMIT)
    low = [name for name in names if (most := machine.setting(name)) is not None and most < _FEW_NAMESPACES]
    return f"allow more namespaces: {raised_limit(*(low or names), machine=machine)}"


def _rights(step: Step, number: int, machine: MachineFacts) -> str:
    """The innermost cause first: a container's filter denies what the host may deny as well."""
    if machine.is_container and (machine.is_filtered or number == errno.EROFS):
        return _container(machine)
    if machine.user != 0 and machine.setting(APPARMOR_RULE) == 1:
        return f"Ubuntu's AppArmor rule denies it to ordinary users: {_sysctl(machine, f'{APPARMOR_RULE}=0')}"
    if machine.user != 0 and machine.setting(DEBIAN_RULE) == 0:
        return f"Debian's setting denies it to ordinary users: {_sysctl(machine, f'{DEBIAN_RULE}=1')}"
    if step is Step.NAMESPACE:
        return "root without CAP_SYS_ADMIN: run as an ordinary user, or give the container it"
    if (step, number) == (Step.USER_NAMESPACE, errno.EACCES):
        return "the maps of the user namespace cannot be written: the process changed its user, or /proc is not its own"
    if step is Step.USER_NAMESPACE:
        why = "a seccomp filter" if machine.is_filtered else "a chroot, a security module"
        return f"{why} denies user namespaces to this process: allow it to unshare, or run as root"
    if step is Step.TUN:
        return "CAP_NET_ADMIN is missing in this namespace"
    return ""


def _container(machine: MachineFacts) -> str:
    """Options that a container must be started with: a device, namespaces, and writable settings."""
    options = ["--device /dev/net/tun", "--security-opt seccomp=unconfined", "--security-opt systempaths=unconfined"]
    if machine.is_confined:
        options.append("--security-opt apparmor=unconfined")
    return f"this container denies it; start it with: docker run {' '.join(options)}"


def _sysctl(machine: MachineFacts, *settings: str) -> str:
    line = f"{_sudo(machine)}sysctl -w {' '.join(settings)}"
    return f"on the container's host, {line}" if machine.is_container else line


def _sudo(machine: MachineFacts) -> str:
    return "" if machine.user == 0 else "sudo "
