"""The kernel's counters of a TCP connection: which bytes have left, which have arrived.

Takes a connected socket, gives counters; changes only the socket's options.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from fcntl import ioctl
from termios import FIONREAD
from typing import NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)

_ACKNOWLEDGED = struct.Struct("=Q")
_ACKNOWLEDGED_AT = 120
_RECEIVED = struct.Struct("=Q")
_RECEIVED_AT = 128
_UNSENT = struct.Struct("=I")
_UNSENT_AT = 144
_RATE = struct.Struct("=Q")
_RATE_AT = 160
_UNREAD = struct.Struct("=i")
_SENT = struct.Struct("=QQ")
_SENT_AT = 200
_INFO_BYTES = _SENT_AT + _SENT.size

_TCP_NOTSENT_LOWAT = 25
_UNSENT_BYTES = 256 << 10
"""How much may wait unsent in the kernel: 4 ms at 500 Mbit/s, time enough for a thread to write more."""


class TcpProgress(NamedTuple):
    """Bytes of a connection since its beginning."""

    left: int
    """Bytes sent at least once."""
    unsent: int
    """Bytes written, but not yet sent."""
    acknowledged: int
    rate: int
    """Recent delivery rate in bytes per second; 0 when unknown."""

    @property
    def written(self) -> int:
        return self.left + self.unsent


class OldKernel(Exception):
    """The kernel lacks the needed counters, which Linux has since 4.19."""


def handle_of(descriptor: int) -> tuple[socket.socket, tuple[str, int]] | None:
    """Duplicates the descriptor of a connection that ZeroMQ may close any time; with its peer, None when it is over."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        return None
    try:
        # The descriptor may belong to anything by now.
        connection = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return None
    try:
        host, port = connection.getpeername()
    except (OSError, ValueError):
        connection.close()
        return None
    return connection, (host, port)


def progress(connection: socket.socket) -> TcpProgress:
    """The connection's counters now."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(info) < _INFO_BYTES:
        raise OldKernel("the kernel's TCP_INFO does not count bytes sent: Linux 4.19 or newer is needed")
    sent, again = _SENT.unpack_from(info, _SENT_AT)
    # The connection's opening counts as one acknowledged byte.
    acknowledged = max(0, _ACKNOWLEDGED.unpack_from(info, _ACKNOWLEDGED_AT)[0] - 1)
    unsent = _UNSENT.unpack_from(info, _UNSENT_AT)[0]
    return TcpProgress(sent - again, unsent, acknowledged, _RATE.unpack_from(info, _RATE_AT)[0])


def taken(connection: socket.socket) -> int:
    """Bytes that have arrived and been read, without those that the kernel still holds."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    # In this order: bytes that arrive or are read in between make the result smaller, never larger.
    (unread,) = _UNREAD.unpack(ioctl(connection, FIONREAD, bytes(_UNREAD.size)))
    return int(_RECEIVED.unpack_from(info, _RECEIVED_AT)[0]) - int(unread)


def keep_little_unsent(connection: socket.socket) -> None:
    """Limits unsent bytes in the kernel, so that messages can still be aborted; bytes in flight are not limited."""
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _UNSENT_BYTES)


def cut_off(connection: socket.socket) -> None:
    """Resets the connection now; unsent bytes are never sent."""
    nowhere = bytes(16)  # an address of the family AF_UNSPEC dissolves the connection
    if _libc.connect(connection.fileno(), nowhere, len(nowhere)):
        # It was over anyway, or the kernel is too old: then it ends when the last descriptor is closed.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def is_over(connection: socket.socket) -> bool:
    """Whether the other end, which never sends data, has closed or reset it."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
