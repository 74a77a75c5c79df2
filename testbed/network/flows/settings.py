"""What can be chosen about the fluid model: the rule of sharing, and TCP's settings.

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
    """How connections behave; the defaults are Linux's, with cubic."""

    congestion: str = "cubic"
    """`cubic` or `reno`."""
    initial_window: int = 10
    """Segments."""
    mss_bytes: int = 1448
    header_bytes: int = 52
    """Of every segment: they take their part of each link."""
    idle_restart: bool = True
    """The window falls back after a retransmission timeout's time without sending."""
    handshake: bool = True
    """The first message of a pair waits a round trip for its connection."""
    receive_window_bytes: float = math.inf
    """The most that is under way at once: socket buffers smaller than bandwidth × delay bind here."""
    min_rto_s: float = 0.2
    syn_timeout_s: float = 1.0
    two_ways: bool = True
    """Acknowledgements that come back over full links slow their flow down."""
    drops: bool = True
    """A queue drops what it does not hold."""

    def __post_init__(self) -> None:
        if self.congestion not in ("cubic", "reno"):
            raise ValueError(f"congestion control must be cubic or reno, not {self.congestion!r}")
        if self.initial_window < 1 or self.mss_bytes < 1 or self.receive_window_bytes < self.mss_bytes:
            raise ValueError("a window holds at least one segment of at least one byte")

    @property
    def goodput(self) -> float:
        """The part of a link's rate that is left for messages."""
        return self.mss_bytes / (self.mss_bytes + self.header_bytes)

    @property
    def acknowledging(self) -> float:
        """The part of a full link that acknowledgements take: one, of headers alone, for every two segments."""
        return self.header_bytes / (2.0 * (self.mss_bytes + self.header_bytes))

    @property
    def initial_window_bytes(self) -> float:
        return min(float(self.initial_window * self.mss_bytes), self.receive_window_bytes)
