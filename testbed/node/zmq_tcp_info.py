"""What the kernel knows of a TCP connection: which bytes have left, which have arrived.

Takes a connected socket, gives counts; changes the socket's options only.
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
"""How much may wait in the kernel: 4 ms at 500 Mbit/s, time enough for a thread to bring more."""


class TcpProgress(NamedTuple):
    """Of what has been written to a connection, in bytes since its beginning."""

    left: int
    """Sent at least once."""
    unsent: int
    """Written, but not sent."""
    acknowledged: int
    rate: int
    """Bytes a second that have arrived lately; 0 when not known."""

    @property
    def written(self) -> int:
        return self.left + self.unsent


class OldKernel(Exception):
    """The kernel does not count what this needs (Linux has since 4.19)."""


def handle_of(descriptor: int) -> tuple[socket.socket, tuple[str, int]] | None:
    """Another handle of a connection that somebody else may close any time, and its peer; None when it is over."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        return None
    try:
        # The number may be that of anything by now.
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
    """What has become of all bytes so far."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(info) < _INFO_BYTES:
        raise OldKernel("the kernel's TCP_INFO does not count bytes sent: Linux 4.19 or newer is needed")
    sent, again = _SENT.unpack_from(info, _SENT_AT)
    # The connection's opening counts as one acknowledged byte.
    acknowledged = max(0, _ACKNOWLEDGED.unpack_from(info, _ACKNOWLEDGED_AT)[0] - 1)
    unsent = _UNSENT.unpack_from(info, _UNSENT_AT)[0]
    return TcpProgress(sent - again, unsent, acknowledged, _RATE.unpack_from(info, _RATE_AT)[0])


def taken(connection: socket.socket) -> int:
    """How many bytes have come and been read; what the kernel still holds is nobody's burden."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    # In this order: what comes or is read in between makes it less, never more.
    (unread,) = _UNREAD.unpack(ioctl(connection, FIONREAD, bytes(_UNREAD.size)))
    return int(_RECEIVED.unpack_from(info, _RECEIVED_AT)[0]) - int(unread)


def keep_little_unsent(connection: socket.socket) -> None:
    """What waits stays where it can be given up; what is on its way is not limited."""
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _UNSENT_BYTES)


def cut_off(connection: socket.socket) -> None:
    """Reset the connection now; nothing of what has not left ever does."""
    nowhere = bytes(16)  # an address of the family AF_UNSPEC: no connection any more
    if _libc.connect(connection.fileno(), nowhere, len(nowhere)):
        # It was over anyway, or the kernel is older than that: then it ends when the last descriptor is closed.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def is_over(connection: socket.socket) -> bool:
    """Whether the other end, which never says anything, has closed or reset it."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
