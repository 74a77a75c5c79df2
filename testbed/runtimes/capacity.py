"""How much traffic the fabric can carry on this machine.

Takes nothing, gives figures; asks how many cores may be used.
"""

from __future__ import annotations

from testbed.cores import usable_cores

CARRIED_BYTES_S = 35e6
"""Bytes a second of real time that the fabric carries, with one core for itself and one for the nodes' kernels, on the
machine of docs/performance.md. With more traffic, frames wait in the nodes' devices. A frame costs 50 to 65 µs, and
holds 1.6 kB on average, acknowledgements included."""
_CORES = 2
"""Cores that this keeps busy: the fabric is one process, and the nodes' kernels need about as much time."""
BYTE_S = _CORES / CARRIED_BYTES_S
"""Processor time of a byte that a node sends, in seconds."""


def carried_bytes_s() -> float:
    """Traffic of all nodes together that this machine carries."""
    return min(usable_cores(), _CORES) / BYTE_S


def in_mb_s(bytes_s: float) -> str:
    return f"{bytes_s / 1e6:.3g} MB/s"
