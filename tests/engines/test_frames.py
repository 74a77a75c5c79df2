"""Frames as the kernel writes them: read, cut into pieces, and never trusted."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.engines.fabric.python_plane.frames import Frame, is_group, part, read_frame, whole
from testbed.engines.fabric.unfit import Unfit

SOURCE, DEST = socket.inet_aton("198.18.0.1"), socket.inet_aton("198.18.0.2")
MTU = 1500
FIN, PSH, ACK, CWR = 0x01, 0x08, 0x10, 0x80


def sum16(data: bytes) -> int:
    """The internet checksum's sum, the slow way of the RFC."""
    total = 0
    for place in range(0, len(data), 2):
        total += int.from_bytes(data[place : place + 2].ljust(2, b"\0"), "big")
        total = (total & 0xFFFF) + (total >> 16)
    return total


def ip(payload: bytes, protocol: int, source: bytes = SOURCE, dest: bytes = DEST, fragment: int = 0) -> bytes:
    size = 20 + len(payload)
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, size, 0xFFFE, fragment, 64, protocol, 0, source, dest)
    return header[:10] + struct.pack("!H", sum16(header) ^ 0xFFFF) + header[12:] + payload


def vnet(flags: int = 0, gso: int = 0, headers: int = 0, segment: int = 0, start: int = 0, offset: int = 0) -> bytes:
    return struct.pack("=BBHHHH", flags, gso, headers, segment, start, offset)


def tcp(payload: bytes, flags: int = ACK | PSH | FIN | CWR, sequence: int = 0xFFFFFF00) -> bytes:
    return struct.pack("!HHIIBBHHH12x", 1, 2, sequence, 7, 8 << 4, flags, 100, 0xBEEF, 0) + payload


def super_segment(size: int, segment: int = 1448) -> bytes:
    payload = bytes(place * 31 % 251 for place in range(size))
    return vnet(1, 1, 52, segment, 20, 16) + ip(tcp(payload), 6)


def read(data: bytes) -> Frame:
    frame = read_frame(data, SOURCE, MTU)
    assert isinstance(frame, Frame)
    return frame


def test_a_plain_packet_is_carried_as_it_is_under_our_own_header() -> None:
    data = vnet(2) + ip(b"payload", 17)  # the sender says that the checksum is right; it may say much
    frame = read(data)
    assert frame.sizes == (27,)
    assert frame.dest == DEST
    assert b"".join(whole(frame)) == bytes(10) + data[10:]


def test_a_super_segment_stands_for_packets_of_the_mtu() -> None:
    frame = read(super_segment(3 * 1448 + 5))
    assert frame.sizes == (1500, 1500, 1500, 57)
    assert b"".join(whole(frame)) == super_segment(3 * 1448 + 5)


@pytest.mark.parametrize(("first", "last"), [(0, 1), (1, 2), (2, 4), (3, 4), (0, 3), (1, 3)])
def test_a_part_is_what_the_kernel_would_have_cut(first: int, last: int) -> None:
    data = super_segment(3 * 1448 + 5)
    written = b"".join(part(read(data), first, last))
    flags, gso, headers, segment, start, offset = struct.unpack_from("=BBHHHH", written)
    packet = written[10:]
    several = last - first > 1
    assert (flags, gso, start, offset) == (1, int(several), 20, 16)
    assert (headers, segment) == ((52, 1448) if several else (0, 0))
    assert packet[52:] == data[62:][first * 1448 : last * 1448]
    assert int.from_bytes(packet[2:4], "big") == len(packet)
    assert int.from_bytes(packet[4:6], "big") == (0xFFFE + first) % 0x10000
    assert sum16(packet[:20]) == 0xFFFF
    assert int.from_bytes(packet[24:28], "big") == (0xFFFFFF00 + first * 1448) % 2**32
    assert packet[33] == ACK | (CWR if first == 0 else 0) | (PSH | FIN if last == 4 else 0)
    # What is left to the kernel is to add the rest to the sum over the pseudo header.
    pseudo = packet[12:20] + struct.pack("!HH", 6, len(packet) - 20)
    assert int.from_bytes(packet[36:38], "big") == sum16(pseudo)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", Unfit.MALFORMED),
        (vnet(), Unfit.MALFORMED),
        (vnet() + b"\x60" + bytes(39), Unfit.IPV6),
        (vnet() + b"\x10" + bytes(39), Unfit.MALFORMED),
        (vnet() + ip(b"x", 17)[:-1], Unfit.MALFORMED),
        (vnet() + ip(b"x", 17) + b"x", Unfit.MALFORMED),
        (vnet() + b"\x4f" + ip(b"x", 17)[1:], Unfit.MALFORMED),
        (vnet() + ip(b"x", 17, source=DEST), Unfit.FOREIGN_SOURCE),
        (vnet() + ip(bytes(1481), 17), Unfit.OVERSIZE),
        (vnet(1, 0, 0, 0, 20, 6) + ip(bytes(1481), 17), Unfit.OVERSIZE),
        (vnet(0, 1, 52, 1448, 20, 16) + ip(tcp(bytes(3000)), 6), Unfit.OFFLOAD),
        (vnet(1, 3, 28, 1400, 20, 6) + ip(bytes(3000), 17), Unfit.OFFLOAD),
        (vnet(1, 1, 52, 1, 20, 16) + ip(tcp(bytes(3000)), 6), Unfit.OFFLOAD),
        (vnet(1, 1, 52, 1449, 20, 16) + ip(tcp(bytes(3000)), 6), Unfit.OVERSIZE),
        (vnet(1, 0, 0, 0, 21, 6) + ip(bytes(30), 17), Unfit.OFFLOAD),
        (vnet(1, 0, 0, 0, 20, 16) + ip(bytes(30), 17), Unfit.OFFLOAD),
        (vnet(1, 0, 0, 0, 20, 6) + ip(bytes(30), 17, fragment=0x2000), Unfit.OFFLOAD),
        (vnet(1, 0, 0, 0, 20, 6) + ip(bytes(7), 17), Unfit.OFFLOAD),
        (vnet(1, 1, 52, 1448, 20, 16) + ip(tcp(b"")[:12] + b"\x10" + bytes(7), 6), Unfit.OFFLOAD),
    ],
)
def test_what_cannot_be_carried_is_told_apart(data: bytes, why: Unfit) -> None:
    assert read_frame(data, SOURCE, MTU) is why


def test_fragments_are_packets_like_others() -> None:
    assert read(vnet() + ip(bytes(1480), 17, fragment=0x2000)).sizes == (1500,)
    assert read(vnet() + ip(bytes(100), 17, fragment=185)).sizes == (120,)


@pytest.mark.parametrize("group", ["224.0.0.22", "255.255.255.255", "198.19.255.255"])
def test_groups(group: str) -> None:
    assert is_group(socket.inet_aton(group))
    assert not is_group(DEST)


@given(st.binary(max_size=120), st.integers(0, 10), st.integers(0, 255))
def test_no_bytes_are_too_much(noise: bytes, place: int, value: int) -> None:
    """Neither noise nor a frame with anything in its headers changed; and what is carried can be written."""
    for data in (noise, vnet() + noise, super_segment(4000, 700)[:10] + b"\x45" + noise):
        read_frame(data, SOURCE, MTU)
    damaged = bytearray(super_segment(4000, 700))
    damaged[place * 6 : place * 6 + 1] = bytes([value])
    frame = read_frame(bytes(damaged), SOURCE, MTU)
    if isinstance(frame, Frame) and len(frame.sizes) > 1:
        pieces = [part(frame, each, each + 1) for each in range(len(frame.sizes))]
        assert [len(header) - 10 + len(payload) for header, payload in pieces] == list(frame.sizes)
