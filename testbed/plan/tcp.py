"""TCP settings of a node in every runtime, and the kernel's parameters for them.

Takes a plan, gives settings; pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.plan.model import NodePlan, RunPlan

LARGEST_BUFFER_BYTES = 256 << 20
SEGMENTS_AT_ONCE = 8
"""What TCP sends as one frame at least, once its window has room for three times as many. The kernel's own rule is two,
or what the connection sends in a millisecond: at wide-area rates nearly all frames had two, and frames cost time."""


@dataclass(frozen=True, slots=True)
class TcpSettings:
    """How the kernel's TCP behaves in a node."""

    congestion: str = "cubic"
    buffer_bytes: int = LARGEST_BUFFER_BYTES
    """Upper limit of a socket's buffers, in each direction; the kernel sizes them below that."""
    notsent_lowat_bytes: int = 65_536
    """Unsent bytes that a socket accepts; a node cannot withdraw them."""
    idle_restart: bool = True
    """The congestion window is reset after a pause, as Linux does by default."""
    time_scale: float = 1.0
    """Factor for the kernel's timeouts of lost packets."""


def tcp_of(plan: NodePlan | RunPlan) -> TcpSettings:
    """The settings of a plan."""
    network = plan.experiment.network
    return TcpSettings(congestion=network.congestion, idle_restart=network.idle_restart, time_scale=plan.time_scale)


def settings_of(tcp: TcpSettings, group: int | str) -> dict[str, str]:
    """The kernel's parameters, by name below `net.ipv4`; the group `group` may ping without privileges."""
    return {
        "tcp_rmem": f"4096 131072 {tcp.buffer_bytes}",
        "tcp_wmem": f"4096 16384 {tcp.buffer_bytes}",
        "tcp_notsent_lowat": str(tcp.notsent_lowat_bytes),
        "tcp_slow_start_after_idle": str(int(tcp.idle_restart)),
        "tcp_min_tso_segs": str(SEGMENTS_AT_ONCE),
        # A connection must not depend on metrics of an earlier one to the same node.
        "tcp_no_metrics_save": "1",
        "ping_group_range": f"{group} {group}",
    }
