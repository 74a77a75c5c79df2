"""What a run's engine has counted on the wire, headers and what was sent again included.

Takes the folder of a run, gives bytes; reads `engine/health.json`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from testbed.run_files import Malformed, read_document


class NodeWire(msgspec.Struct, frozen=True):
    """What was carried to one node."""

    name: str
    bytes_out: int = 0


class Wire(msgspec.Struct, frozen=True):
    """Over all nodes; nothing where no engine counted, or what it wrote cannot be read."""

    wire_sent: int | None = None
    wire_received: int | None = None
    nodes: tuple[NodeWire, ...] = ()


def read_wire(folder: Path) -> Wire:
    try:
        return read_document(folder / "engine" / "health.json", folder, Wire)
    except (OSError, Malformed):
        return Wire()
