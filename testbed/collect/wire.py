"""What a run's engine has counted on the wire, headers and what was sent again included.

Takes the folder of a run, gives bytes; reads `engine/health.json`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from testbed.collect.plan_head import FAULTS


class Wire(msgspec.Struct, frozen=True):
    """Over all nodes; nothing where no engine counted, or what it wrote cannot be read."""

    wire_sent: int | None = None
    wire_received: int | None = None


def read_wire(folder: Path) -> Wire:
    try:
        return msgspec.json.decode((folder / "engine" / "health.json").read_bytes(), type=Wire)
    except FAULTS:
        return Wire()
