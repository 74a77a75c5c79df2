"""A network namespace of one's own: empty, with its loopback up and TCP's settings as planned.

Takes settings, gives nothing; touches the calling process, which must have one thread.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from testbed.engines.denied import NetworkDenied, Step, during
from testbed.engines.kernel import CLONE_NEWNET, CLONE_NEWUSER, unshare
from testbed.engines.tun import bring_up

_SYSCTLS = Path("/proc/sys/net/ipv4")
_NO_IPV6 = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
"""Not there where the kernel has none."""
SMALLEST_BUFFER_BYTES = 4 << 20
LARGEST_BUFFER_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class TcpSettings:
    """How the kernel's TCP behaves in a node."""

    congestion: str = "cubic"
    buffer_bytes: int = LARGEST_BUFFER_BYTES
    """The most that a socket's buffers grow to, in each direction; the kernel sizes them itself below that."""
    notsent_lowat_bytes: int = 65_536
    """How much a socket takes beyond what is on its way: what a node can no longer take back."""
    idle_restart: bool = True
    """The window falls back after a pause, as Linux does by default."""
    time_scale: float = 1.0
    """How many times later than its own clock says the kernel should think that a packet is lost."""


def buffer_bytes(rate_bps: float, round_trip_s: float) -> int:
    """Twice bandwidth × delay, within bounds: a smaller buffer would hold TCP back, however good the link."""
    wanted = 2 * rate_bps / 8 * round_trip_s
    return int(min(max(wanted, SMALLEST_BUFFER_BYTES), LARGEST_BUFFER_BYTES))


def enter_namespace(tcp: TcpSettings) -> None:
    """The process leaves the host's network for a new one; as an ordinary user, inside a user namespace of its own."""
    _leave_network()
    with during(Step.LOOPBACK):
        bring_up("lo")
    group = os.getgid()
    values = {
        "tcp_rmem": f"4096 131072 {tcp.buffer_bytes}",
        "tcp_wmem": f"4096 16384 {tcp.buffer_bytes}",
        "tcp_notsent_lowat": str(tcp.notsent_lowat_bytes),
        "tcp_slow_start_after_idle": str(int(tcp.idle_restart)),
        # A connection must not depend on what an earlier one to the same node met with.
        "tcp_no_metrics_save": "1",
        # ping without privileges.
        "ping_group_range": f"{group} {group}",
    }
    with during(Step.SETTINGS):
        for name, value in values.items():
            (_SYSCTLS / name).write_text(value)
        if _NO_IPV6.exists():  # the fabric carries none; this saves it the neighbour discovery
            _NO_IPV6.write_text("1")


def _leave_network() -> None:
    if os.geteuid() != 0:
        _leave_with_user_namespace()
        return
    try:
        with during(Step.NAMESPACE):
            unshare(CLONE_NEWNET)
    except NetworkDenied as denied:
        if denied.number != errno.EPERM:
            raise
        # Root without CAP_SYS_ADMIN, as in a container: perhaps it may do what ordinary users may.
        try:
            _leave_with_user_namespace()
        except NetworkDenied:
            raise denied from None


def _leave_with_user_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    with during(Step.USER_NAMESPACE):
        unshare(CLONE_NEWUSER | CLONE_NEWNET)
        # The process stays who it is: it has all capabilities in the new namespaces until it gives them up.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
