"""Whether the network was the one asked for: `health.json`, written anew every second, whole or not at all.

Takes counts, gives a `Health`; touches that file. What decides is written down here, not the machine's load average.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from testbed.engines.fabric.data_plane import BACKLOG, Figures
from testbed.engines.fabric.delays import why_too_late
from testbed.protocol.fabric import Lateness


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
    late_share: float
    """Of the packets: later than `delays` allows."""
    waits: Lateness
    """For how long a link may have stood idle because a frame was not read yet; since the start barrier."""
    wait_share: float
    """Of the frames: longer than `delays` allows."""
    device_waits: Lateness
    """What it added to frames' delays that they lay in nodes' devices until they were read; since the start barrier."""
    device_wait_mean_ms: float
    device_wait_share: float
    """Of the frames: longer than `delays` allows."""
    absent_s: float
    """For how long the fabric did not run though it was to."""
    cpu_s: float
    cpu_share: float
    """Of one core, in the last second."""
    attached: int
    held_frames: int
    held_bytes: int
    in_flight: int
    """Packets in the model."""
    no_path: int
    wire_sent: int
    """Bytes of the packets that nodes have offered so far, headers and what was sent again included."""
    wire_received: int
    """Of those that have arrived."""
    nodes: list[NodeHealth]
    data_plane: str = ""
    """Which one carried the packets; empty in files of older versions."""


def why_overloaded(figures: Figures, time_scale: float, now_s: float) -> tuple[str, ...]:
    """In words; nothing when all is well."""
    found = list(why_too_late(figures.delays, time_scale, now_s))
    if unwritten := sum(port.unwritten for port in figures.ports):
        found.append(f"{unwritten} packets could not be written to their nodes")
    if backlog := sum(port.unfit.get(BACKLOG, 0) for port in figures.ports):
        found.append(f"{backlog} packets were dropped because too many were on their way ({BACKLOG})")
    return tuple(found)


def write_health(path: Path, health: Health) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(msgspec.json.encode(health) + b"\n")
    temporary.replace(path)
