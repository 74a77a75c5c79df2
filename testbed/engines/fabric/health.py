"""Whether the network was the one asked for: `health.json`, written anew every second, whole or not at all.

Takes counts, gives a `Health`; touches that file. What decides is written down here, not the machine's load average.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from testbed.engines.fabric.carrier import BACKLOG
from testbed.protocol import Lateness

LATE_P99_MS = 2.0
"""One packet in a hundred may be this late, in emulated time."""
LATE_P999_MS = 20.0
"""One in a thousand may be this late."""
FEWEST_PACKETS = 1_000
"""With fewer, percentiles say nothing."""


class NodeHealth(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one node's end of the network has seen; what is not there is 0."""

    name: str
    frames_in: int = 0
    """Read from it; a super-segment is one."""
    packets_out: int = 0
    """Written to it."""
    bytes_out: int = 0
    unfit: dict[str, int] = {}
    """Frames of its that were not carried, by why."""
    failed: dict[str, int] = {}
    """Reads and packets to write that failed, by why."""


class Health(msgspec.Struct, frozen=True):
    """How the fabric is."""

    t: float | None
    overloaded: tuple[str, ...]
    lateness: Lateness
    """Since the start barrier."""
    late_p999_ms: float
    cpu_s: float
    cpu_share: float
    """Of one core, in the last second."""
    attached: int
    held_frames: int
    held_bytes: int
    in_flight: int
    """Packets in the model."""
    no_path: int
    nodes: list[NodeHealth]


def why_overloaded(lateness: Lateness, late_p999_ms: float, backlog: int, time_scale: float) -> tuple[str, ...]:
    """In words; nothing when all is well. Times are real ones: at time scale k, k times as much is still all right."""
    found = []
    if lateness.count >= FEWEST_PACKETS:
        for share, late_ms, limit_ms in (
            ("1%", lateness.p99_ms, LATE_P99_MS),
            ("0.1%", late_p999_ms, LATE_P999_MS),
        ):
            if late_ms > limit_ms * time_scale:
                found.append(
                    f"{share} of the packets were later than {late_ms / time_scale:.1f} ms (limit {limit_ms:g} ms)"
                )
    if backlog:
        found.append(f"{backlog} packets were dropped because too many were on their way ({BACKLOG})")
    return tuple(found)


def write_health(path: Path, health: Health) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(msgspec.json.encode(health) + b"\n")
    temporary.replace(path)
