"""Sockets for measuring. Takes ports and times, gives sockets; touches the process's network namespace."""

from __future__ import annotations

import select
import socket
import struct
import time
from pathlib import Path

_EVERYWHERE = "0.0.0.0"  # noqa: S104 - in a namespace of its own
_BUFFER_BYTES = 4 << 20
_SPIN_S = 0.0002
_LARGEST = 2048
_SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("@qq")
"""Seconds and nanoseconds of CLOCK_REALTIME."""
_NANOSECONDS = 1_000_000_000
_COUNTERS = Path("/proc/thread-self/net/snmp")


def receiver(port: int) -> socket.socket:
    """A datagram socket with a large receive buffer."""
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    stamp_arrivals(own)
    own.bind((_EVERYWHERE, port))
    return own


def stamp_arrivals(own: socket.socket) -> None:
    """Has the kernel time-stamp datagrams: waking up a process takes time that is not the network's."""
    own.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def take(own: socket.socket) -> tuple[bytes, float, tuple[str, int]]:
    """Receives a time-stamped datagram: data, arrival by CLOCK_MONOTONIC, sender."""
    data, notes, _, sender = own.recvmsg(_LARGEST, socket.CMSG_SPACE(_STAMP.size))
    real_ns = time.time_ns()
    now_s = time.monotonic()  # last: if this process is preempted here, the datagram looks late, not early
    for level, kind, note in notes:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _STAMP.unpack(note)
            # The stamp is by a clock that may be set: only the age of the datagram is taken from it.
            now_s -= max(0, real_ns - seconds * _NANOSECONDS - nanoseconds) / _NANOSECONDS
    return data, now_s, sender


def listener(port: int) -> socket.socket:
    """A listening TCP socket."""
    return socket.create_server((_EVERYWHERE, port))


def wait_until(own: socket.socket, until_s: float) -> bool:
    """Whether there is something to read before `until_s`."""
    return bool(select.select([own], [], [], max(0.0, until_s - time.monotonic()))[0])


def sleep_until(until_s: float) -> None:
    left_s = until_s - time.monotonic()
    if left_s > _SPIN_S:
        time.sleep(left_s)


def overflows() -> int:
    """Number of datagrams of this namespace dropped at full socket buffers."""
    names, values = (line.split() for line in _COUNTERS.read_text().splitlines() if line.startswith("Udp:"))
    return int(dict(zip(names, values, strict=True))["RcvbufErrors"])
