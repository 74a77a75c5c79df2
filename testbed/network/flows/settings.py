"""Settings of the fluid model: how bandwidth is shared, and TCP's parameters.

Takes and gives plain values; touches nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class BandwidthSharing(StrEnum):
    """How the flows on a link divide it."""

    MAX_MIN = "max-min"
    RTT_WEIGHTED = "rtt-weighted"


@dataclass(frozen=True, slots=True)
class Tcp:
    """Parameters of TCP; the defaults are Linux's, with cubic."""

    congestion: str = "cubic"
    """`cubic` or `reno`."""
    initial_window: int = 10
    """Segments."""
    mss_bytes: int = 1448
    header_bytes: int = 52
    """Headers of every segment, which use a share of each link."""
    idle_restart: bool = True
    """Whether the window shrinks after an idle retransmission timeout."""
    handshake: bool = True
    """Whether the first message of a pair waits a round trip for its connection."""
    receive_window_bytes: float = math.inf
    """Most bytes in flight: models socket buffers smaller than bandwidth × delay."""
    min_rto_s: float = 0.2
    syn_timeout_s: float = 1.0
    two_ways: bool = True
    """Whether acknowledgements that return over full links slow their flow down."""
    drops: bool = True
    """Whether a queue drops what it cannot hold."""

    def __post_init__(self) -> None:
        if self.congestion not in ("cubic", "reno"):
            raise ValueError(f"congestion control must be cubic or reno, not {self.congestion!r}")
        if self.initial_window < 1 or self.mss_bytes < 1 or self.receive_window_bytes < self.mss_bytes:
            raise ValueError("a window holds at least one segment of at least one byte")

    @property
    def goodput(self) -> float:
        """Share of a link's rate that is left for messages."""
        return self.mss_bytes / (self.mss_bytes + self.header_bytes)

    @property
    def acknowledging(self) -> float:
        """Share of a full link that acknowledgements use: one, of headers only, for every two segments."""
        return self.header_bytes / (2.0 * (self.mss_bytes + self.header_bytes))

    @property
    def initial_window_bytes(self) -> float:
        return min(float(self.initial_window * self.mss_bytes), self.receive_window_bytes)
