"""Packets with the process id of their sender, as the kernel tells it.

Takes sockets, gives packets and process ids. In a namespace of processes the ids are others than outside of it: the
sender names the process as it knows it, and the receiver is told the id that this process has there.
"""

from __future__ import annotations

import os
import socket
import struct

from testbed.protocol.message import MAX_MESSAGE_BYTES

_CREDENTIALS = struct.Struct("3i")
"""Process, user, group."""
_ROOM = socket.CMSG_SPACE(_CREDENTIALS.size)


def send_from(connection: socket.socket, packet: bytes, pid: int) -> None:
    """As if that process had sent it, which may be dead, but not buried; needs rights over its namespace."""
    credentials = _CREDENTIALS.pack(pid, os.geteuid(), os.getegid())
    connection.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)])


def ask_for_senders(connection: socket.socket) -> None:
    """From now on the kernel tells with every packet."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def receive_with_sender(connection: socket.socket) -> tuple[bytes, int]:
    """A packet, and the id of the process that it is of; 0 where the kernel does not tell."""
    packet, told, _, _ = connection.recvmsg(MAX_MESSAGE_BYTES + 1, _ROOM)
    for level, kind, data in told:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(data) == _CREDENTIALS.size:
            return packet, _CREDENTIALS.unpack(data)[0]
    return packet, 0
