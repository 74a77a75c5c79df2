"""Relays a socket of a run to standard input and output: `python -m testbed.runtimes.containers.relay PATH`.

For commands that cannot open the socket themselves, such as on another machine. Takes packets on standard input, gives
packets on standard output, to and from the socket of that path. Each packet is preceded by its length. The first packet
sent is empty: the connection is open. Ends with either side. Imports little: it is started often, beside learners.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from collections.abc import Iterator

from testbed.boot_messages import MAX_MESSAGE_BYTES

_LENGTH = struct.Struct(">I")
_CHUNK_BYTES = 1 << 16
_CONNECT_S = 10.0
_STDIN, _STDOUT = 0, 1


class TooLong(ValueError):
    """The length is more than a packet's limit, so the data are not packets."""


def framed(packet: bytes) -> bytes:
    return _LENGTH.pack(len(packet)) + packet


class PacketReader:
    """Splits a stream into packets."""

    def __init__(self) -> None:
        self._received = b""

    def of(self, data: bytes) -> Iterator[bytes]:
        """Takes the packets that are complete with this data; raises TooLong for an impossible length."""
        self._received += data
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            if length > MAX_MESSAGE_BYTES:
                raise TooLong(f"a packet has at most {MAX_MESSAGE_BYTES} bytes, not {length}")
            end = _LENGTH.size + length
            if len(self._received) < end:
                return
            packet, self._received = self._received[_LENGTH.size : end], self._received[end:]
            yield packet


def relay(connection: socket.socket, heard: int, saying: int) -> None:
    """Relays until either side ends. Blocks while a side does not read, so nothing piles up."""
    packets = PacketReader()
    _say(saying, b"")
    while True:
        readable, _, _ = select.select([connection.fileno(), heard], [], [])
        if heard in readable:
            data = os.read(heard, _CHUNK_BYTES)
            if not data:
                return
            for packet in packets.of(data):
                connection.sendall(packet)
        if connection.fileno() in readable:
            packet = connection.recv(MAX_MESSAGE_BYTES)
            if not packet:
                return
            _say(saying, packet)


def _say(saying: int, packet: bytes) -> None:
    left = framed(packet)
    while left:
        left = left[os.write(saying, left) :]


def main(arguments: list[str]) -> int:
    """0 if the socket accepted the connection; else 1, with the reason on standard error."""
    (path,) = arguments
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.settimeout(_CONNECT_S)
            connection.connect(path)
            connection.settimeout(None)
        except OSError as problem:
            sys.stderr.write(f"{problem.strerror or problem}\n")
            return 1
        try:
            relay(connection, _STDIN, _STDOUT)
        except (OSError, TooLong) as problem:  # one side ended in the middle of a packet
            sys.stderr.write(f"{problem}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
