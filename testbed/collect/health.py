"""Health of a run in real time, as judged by control, and bytes on the wire, as counted by the engine.

Takes the folder of a run, gives values; reads `summary.json` and `engine/health.json`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from testbed.run_files import Malformed, read_document

UNKNOWN = "unknown"
OVERLOADED, BROKEN = "overloaded", "broken"
NOT_VALID = frozenset({OVERLOADED, BROKEN})
VALID = "valid"
_WORDS = NOT_VALID | {VALID}


class LateComputing(msgspec.Struct, frozen=True):
    added_share: float | None = None
    """Time that late computing added to the most delayed node, as a share of the run's time."""


class RunHealth(msgspec.Struct, frozen=True):
    health: str = UNKNOWN
    why: tuple[str, ...] = ()
    """Reasons of an overload."""
    computing: LateComputing = LateComputing()


def health_word(folder: Path) -> str:
    """`valid`, `overloaded`, `broken` or `unknown`."""
    return read_run_health(folder).health


def read_run_health(folder: Path) -> RunHealth:
    """Control's judgement; `unknown` where no readable file has one."""
    try:
        judged = read_document(folder / "summary.json", folder, RunHealth)
    except (OSError, Malformed):
        return RunHealth()
    return judged if judged.health in _WORDS else RunHealth()


class NodeWire(msgspec.Struct, frozen=True):
    """Bytes carried to one node."""

    name: str
    bytes_out: int = 0


class WireTraffic(msgspec.Struct, frozen=True):
    """The engine's count, headers and retransmissions included; empty where there is none that can be read."""

    wire_sent: int | None = None
    wire_received: int | None = None
    nodes: tuple[NodeWire, ...] = ()
    data_plane: str | None = None
    """Which of the fabric's carried them."""


def read_wire_traffic(folder: Path) -> WireTraffic:
    try:
        return read_document(folder / "engine" / "health.json", folder, WireTraffic)
    except (OSError, Malformed):
        return WireTraffic()
