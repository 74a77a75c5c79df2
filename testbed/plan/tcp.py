"""How the kernel's TCP behaves in a node, wherever it runs, and what the kernel is told for it.

Takes what a plan says, gives settings; pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.plan.model import NodePlan, RunPlan

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


def tcp_of(plan: NodePlan | RunPlan) -> TcpSettings:
    """What a plan says of it."""
    network = plan.experiment.network
    return TcpSettings(congestion=network.congestion, idle_restart=network.idle_restart, time_scale=plan.time_scale)


def settings_of(tcp: TcpSettings, group: int | str) -> dict[str, str]:
    """What the kernel is told of them, by name below `net.ipv4`; `group` is who may ping without privileges."""
    return {
        "tcp_rmem": f"4096 131072 {tcp.buffer_bytes}",
        "tcp_wmem": f"4096 16384 {tcp.buffer_bytes}",
        "tcp_notsent_lowat": str(tcp.notsent_lowat_bytes),
        "tcp_slow_start_after_idle": str(int(tcp.idle_restart)),
        # A connection must not depend on what an earlier one to the same node met with.
        "tcp_no_metrics_save": "1",
        "ping_group_range": f"{group} {group}",
    }
