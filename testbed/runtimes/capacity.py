"""How much nodes can send each other on one machine.

Takes nothing, gives figures; asks how many cores it may use.
"""

from __future__ import annotations

from testbed.cores import usable_cores

CARRIED_BYTES_S = 35e6
"""What the fabric carries in real time, with a core for itself and another one for the nodes' kernels, on the machine
of docs/performance.md: with more, frames wait in nodes' devices. A frame costs it 50 to 65 µs, and with frames of
acknowledgements holds 1.6 kB on average. The one place where it is written."""
_CORES = 2
"""That it keeps busy: the fabric is one process, and the kernels of the nodes have about as much to do."""
BYTE_S = _CORES / CARRIED_BYTES_S
"""Processor time of every byte that a node sends."""


def carried_bytes_s() -> float:
    """Of all nodes together, on this machine."""
    return min(usable_cores(), _CORES) / BYTE_S


def in_mb_s(bytes_s: float) -> str:
    return f"{bytes_s / 1e6:.3g} MB/s"
