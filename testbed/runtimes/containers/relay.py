"""A run's socket for whoever cannot open it, such as a command on another machine: `... container.relay PATH`.

Takes packets on standard input, gives packets on standard output, to and from the socket of that path; each has its
length before it, since a pipe keeps no packets apart. The first one is empty: somebody listens there. Ends with either
side. Loads next to nothing: it is started again and again, beside learners.
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
    """No packet is that long: whoever sends this speaks of something else."""


def framed(packet: bytes) -> bytes:
    return _LENGTH.pack(len(packet)) + packet


class PacketReader:
    """What has come of a stream."""

    def __init__(self) -> None:
        self._received = b""

    def of(self, data: bytes) -> Iterator[bytes]:
        """Those that are complete by now, once; raises TooLong rather than wait for one without end."""
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
    """Until either side ends. One packet at a time: who does not read is not sent more, nor read from."""
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
    """Whether somebody listened there, as an exit code; why not is said on standard error."""
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
        except (OSError, TooLong) as problem:  # one side has gone in the middle of something
            sys.stderr.write(f"{problem}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
