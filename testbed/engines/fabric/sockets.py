"""Where a fabric is reached. Takes its folder of sockets, gives paths."""

from __future__ import annotations

from pathlib import Path


def node_socket(sockets: Path, rank: int) -> Path:
    """Where a node finds the fabric, and nobody else does."""
    return sockets / "nodes" / str(rank) / "fabric.sock"


def control_socket(sockets: Path) -> Path:
    """Where control and other commands do."""
    return sockets / "fabric.sock"
