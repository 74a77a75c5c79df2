"""What comes of frames on their way, in every data plane. Takes nothing, gives types; touches nothing."""

from __future__ import annotations

from typing import NamedTuple

TOGETHER = 0.01
"""Of a path's latency: packets of one segment that arrive within that are written to the node at once."""
Wait = tuple[float, float, float]
"""What a frame may have lost by not being read at once: for how long the link that it goes to stood idle, how much
later the frame is itself, and, to compare, the latency of its path. A plain tuple: there is one for every frame."""


class Delivery(NamedTuple):
    """Something to write to a node, now."""

    dest: int
    due_s: float
    data: tuple[bytes, memoryview]
    packets: int
    size_bytes: int
    latency_s: float
    """Of their path."""
