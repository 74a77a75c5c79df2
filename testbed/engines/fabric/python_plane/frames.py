"""What comes out of a TUN device: a vnet header and one IPv4 packet, or several TCP segments as one.

Takes bytes, gives `Frame`s, bytes to write, or why a frame cannot be carried; touches nothing. The sender's vnet header
is read and never passed on: what is written has one of our own making.
"""

from __future__ import annotations

import socket
import struct
from array import array
from functools import lru_cache
from typing import NamedTuple

from testbed.engines.fabric.unfit import Unfit
from testbed.engines.tun import VNET_HEADER_BYTES

_VNET = struct.Struct("=BBHHHH")
_NEEDS_CHECKSUM = 1
_GSO_NONE, _GSO_TCP4, _GSO_ECN = 0, 1, 0x80
_ICMP, _TCP, _UDP = 1, 6, 17
_CHECKSUM_OFFSET = {_TCP: 16, _UDP: 6}
_TCP_HEADER_BYTES = 20
_SMALLEST_SEGMENT = 44
"""Of TCP's payload; Linux refuses smaller ones, and a forged one would stand for thousands of packets."""
_FIN, _PSH, _CWR = 0x01, 0x08, 0x80
_FRAGMENT = 0x3FFF
"""More to come, or not the first."""

_IP = VNET_HEADER_BYTES
"""Where the packet begins in a frame."""
_SOURCE = slice(_IP + 12, _IP + 16)
_DEST = slice(_IP + 16, _IP + 20)


class Frame(NamedTuple):
    """A packet, or a super-segment that stands for several."""

    data: bytes
    sizes: tuple[int, ...]
    """Of the IP packets that it stands for."""
    dest: bytes
    """The address."""
    header: bytes
    """The vnet header to write it with."""
    payload_at: int
    """Where the payload of a super-segment begins; 0 for a single packet."""
    segment_bytes: int


_NO_OFFLOAD = bytes(VNET_HEADER_BYTES)


def read_frame(data: bytes, source: bytes, mtu: int) -> Frame | Unfit:
    """A frame that a node with this address wrote."""
    size = len(data) - _IP
    if size < 1:
        return Unfit.MALFORMED
    version = data[_IP] >> 4
    if version != 4:
        return Unfit.IPV6 if version == 6 else Unfit.MALFORMED
    ip_bytes = (data[_IP] & 15) * 4
    if ip_bytes < 20 or size < ip_bytes or int.from_bytes(data[_IP + 2 : _IP + 4], "big") != size:
        return Unfit.MALFORMED
    if data[_SOURCE] != source:
        return Unfit.FOREIGN_SOURCE
    flags, gso, _, segment_bytes, checksum_at, checksum_offset = _VNET.unpack_from(data)
    if not flags & _NEEDS_CHECKSUM:
        if gso != _GSO_NONE:
            return Unfit.OFFLOAD
        if size > mtu:
            return Unfit.OVERSIZE
        return Frame(data, (size,), data[_DEST], _NO_OFFLOAD, 0, 0)
    protocol = data[_IP + 9]
    if (
        checksum_at != ip_bytes
        or _CHECKSUM_OFFSET.get(protocol) != checksum_offset
        or int.from_bytes(data[_IP + 6 : _IP + 8], "big") & _FRAGMENT
        or size < ip_bytes + checksum_offset + 2
    ):
        return Unfit.OFFLOAD
    if gso == _GSO_NONE:
        if size > mtu:
            return Unfit.OVERSIZE
        return Frame(data, (size,), data[_DEST], _header(0, 0, ip_bytes, checksum_offset), 0, 0)
    if gso & ~_GSO_ECN != _GSO_TCP4 or protocol != _TCP or size < ip_bytes + _TCP_HEADER_BYTES:
        return Unfit.OFFLOAD
    headers = ip_bytes + (data[_IP + ip_bytes + 12] >> 4) * 4
    if headers < ip_bytes + _TCP_HEADER_BYTES or headers >= size or segment_bytes < _SMALLEST_SEGMENT:
        return Unfit.OFFLOAD
    if headers + segment_bytes > mtu:
        return Unfit.OVERSIZE
    sizes = _sizes(size - headers, segment_bytes, headers)
    header = _header(headers, segment_bytes if len(sizes) > 1 else 0, ip_bytes, checksum_offset)
    return Frame(data, sizes, data[_DEST], header, _IP + headers, segment_bytes)


def is_group(address: bytes) -> bool:
    """Multicast or broadcast."""
    return address[0] >= 224 or address == _BROADCAST


def whole(frame: Frame) -> tuple[bytes, memoryview]:
    """The frame as it is written when all of it arrives."""
    return frame.header, memoryview(frame.data)[_IP:]


def part(frame: Frame, first: int, last: int) -> tuple[bytes, memoryview]:
    """The frame as it is written when only the segments from `first` to before `last` arrive."""
    data, at, segment_bytes = frame.data, frame.payload_at, frame.segment_bytes
    tcp_at = _IP + (data[_IP] & 15) * 4
    start = at + first * segment_bytes
    end = min(at + last * segment_bytes, len(data))
    is_last = end == len(data)
    header = bytearray(data[_IP:at])
    size = len(header) + end - start
    tcp = tcp_at - _IP
    identification = (int.from_bytes(header[4:6], "big") + first) & 0xFFFF
    sequence = (int.from_bytes(header[tcp + 4 : tcp + 8], "big") + first * segment_bytes) & 0xFFFFFFFF
    struct.pack_into("!HH", header, 2, size, identification)
    header[10:12] = b"\0\0"
    struct.pack_into("!H", header, 10, _folded(header[:tcp]) ^ 0xFFFF)
    struct.pack_into("!I", header, tcp + 4, sequence)
    if not is_last:
        header[tcp + 13] &= ~(_FIN | _PSH) & 0xFF
    if first:
        header[tcp + 13] &= ~_CWR & 0xFF
    pseudo = header[12:20] + struct.pack("!HH", _TCP, size - tcp)
    struct.pack_into("!H", header, tcp + 16, _folded(pseudo))
    several = end - start > segment_bytes
    vnet = _header(len(header) if several else 0, segment_bytes if several else 0, tcp, _CHECKSUM_OFFSET[_TCP])
    return vnet + header, memoryview(data)[start:end]


def _folded(data: bytes | bytearray) -> int:
    """The ones' complement sum of 16-bit words."""
    total = sum(array("H", bytes(data)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return socket.ntohs(total)


@lru_cache(maxsize=4096)
def _sizes(payload: int, segment_bytes: int, headers: int) -> tuple[int, ...]:
    count, rest = divmod(payload, segment_bytes)
    return (headers + segment_bytes,) * count + ((headers + rest,) if rest else ())


@lru_cache(maxsize=4096)
def _header(headers: int, segment_bytes: int, checksum_at: int, checksum_offset: int) -> bytes:
    gso = _GSO_TCP4 if segment_bytes else _GSO_NONE
    return _VNET.pack(
        _NEEDS_CHECKSUM, gso, headers if segment_bytes else 0, segment_bytes, checksum_at, checksum_offset
    )


_BROADCAST = socket.inet_aton("198.19.255.255")
