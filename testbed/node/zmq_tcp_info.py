"""The kernel's counters of a TCP connection: which bytes have left, which have arrived.

Takes a connected socket, gives counters; changes only the socket's options.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from typing import NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)

_ACKNOWLEDGED = struct.Struct("=Q")
_ACKNOWLEDGED_AT = 120
_SENT = struct.Struct("=QQ")
_SENT_AT = 200
_INFO_BYTES = _SENT_AT + _SENT.size

_TCP_NOTSENT_LOWAT = 25
_UNSENT_BYTES = 256 << 10
"""How much may wait unsent in the kernel: 4 ms at 500 Mbit/s, time enough to write more."""


class TcpProgress(NamedTuple):
    """Bytes of a connection since its beginning."""

    left: int
    """Bytes sent at least once."""
    acknowledged: int


class OldKernel(Exception):
    """The kernel lacks the needed counters, which Linux has since 4.19."""


def progress(connection: socket.socket) -> TcpProgress:
    """The connection's counters now."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(info) < _INFO_BYTES:
        raise OldKernel("the kernel's TCP_INFO does not count bytes sent: Linux 4.19 or newer is needed")
    sent, again = _SENT.unpack_from(info, _SENT_AT)
    # The connection's opening counts as one acknowledged byte.
    acknowledged = max(0, _ACKNOWLEDGED.unpack_from(info, _ACKNOWLEDGED_AT)[0] - 1)
    return TcpProgress(sent - again, acknowledged)


def keep_little_unsent(connection: socket.socket) -> None:
    """Limits unsent bytes in the kernel, so that messages can still be aborted; bytes in flight are not limited."""
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _UNSENT_BYTES)


def writable_when_sent(connection: socket.socket) -> None:
    """Makes the connection writable only when the kernel has sent all bytes, until `keep_little_unsent`."""
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, 1)


def cut_off(connection: socket.socket) -> None:
    """Resets the connection now; unsent bytes are never sent."""
    nowhere = bytes(16)  # an address of the family AF_UNSPEC dissolves the connection
    if _libc.connect(connection.fileno(), nowhere, len(nowhere)):
        # It was over anyway, or the kernel is too old: then it ends when the last descriptor is closed.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
