"""Where a fabric is reached. Takes its folder of sockets, gives paths."""

from __future__ import annotations

from pathlib import Path


def node_socket(sockets: Path, rank: int) -> Path:
    """Where one node reaches the fabric: no other process uses this socket."""
    return sockets / "nodes" / str(rank) / "fabric.sock"


def control_socket(sockets: Path) -> Path:
    """Where control and commands reach the fabric."""
    return sockets / "fabric.sock"
