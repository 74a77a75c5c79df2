"""Sockets for measuring. Takes ports and times, gives sockets; touches the namespace that the process is in."""

from __future__ import annotations

import select
import socket
import time
from pathlib import Path

_EVERYWHERE = "0.0.0.0"  # noqa: S104 - in a namespace of its own
_BUFFER_BYTES = 4 << 20
_SPIN_S = 0.0002
_COUNTERS = Path("/proc/thread-self/net/snmp")


def receiver(port: int) -> socket.socket:
    """For datagrams, with as much room as the machine allows."""
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    own.bind((_EVERYWHERE, port))
    return own


def listener(port: int) -> socket.socket:
    """For connections."""
    return socket.create_server((_EVERYWHERE, port))


def wait_until(own: socket.socket, until_s: float) -> bool:
    """Whether there is something to read before then."""
    return bool(select.select([own], [], [], max(0.0, until_s - time.monotonic()))[0])


def sleep_until(until_s: float) -> None:
    left_s = until_s - time.monotonic()
    if left_s > _SPIN_S:
        time.sleep(left_s)


def overflows() -> int:
    """Datagrams for which no socket of this namespace had room."""
    names, values = (line.split() for line in _COUNTERS.read_text().splitlines() if line.startswith("Udp:"))
    return int(dict(zip(names, values, strict=True))["RcvbufErrors"])
