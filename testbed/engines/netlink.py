"""What only netlink can do: a route with a congestion control, a queue's length without root, a device's counters.

Takes values, gives values; touches the network namespace of the calling process. No library: it is one message each.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from testbed.engines.tun import DEVICE

_NLMSG_ERROR = 2
_RTM_NEWLINK, _RTM_GETLINK, _RTM_SETLINK, _RTM_NEWROUTE = 16, 18, 19, 24
_REQUEST, _ACK, _REPLACE, _CREATE = 0x1, 0x4, 0x100, 0x400
_RTA_DST, _RTA_OIF, _RTA_PREFSRC, _RTA_METRICS = 1, 4, 7, 8
_RTAX_LOCK, _RTAX_RTO_MIN, _RTAX_CC_ALGO = 1, 13, 16
_IFLA_TXQLEN, _IFLA_STATS64 = 13, 23
_TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_LINK, _TYPE_UNICAST = 254, 4, 253, 1
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_COUNTERS = struct.Struct("=8Q")
_LONGEST_ANSWER = 32_768


class DeviceCounters(NamedTuple):
    """A device's counters from the node's side: `tx` is towards the fabric."""

    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_errors: int
    tx_errors: int
    rx_dropped: int
    tx_dropped: int
    """Any of these, and the network was not the one asked for."""


class _Attribute(NamedTuple):
    kind: int
    value: bytes

    def packed(self) -> bytes:
        size = _ATTRIBUTE.size + len(self.value)
        return _ATTRIBUTE.pack(size, self.kind) + self.value + bytes(-size % 4)


def set_route(network: str, prefix: int, address: str, congestion: str, timeout_ms: int | None = None) -> None:
    """Connections to the network use this congestion control, whatever the host's own is, and this least timeout."""
    metrics = _Attribute(_RTAX_CC_ALGO, congestion.encode() + b"\0").packed()
    if timeout_ms is not None:
        metrics += _Attribute(_RTAX_LOCK, struct.pack("=I", 1 << _RTAX_RTO_MIN)).packed()
        metrics += _Attribute(_RTAX_RTO_MIN, struct.pack("=I", timeout_ms)).packed()
    attributes = (
        _Attribute(_RTA_DST, socket.inet_aton(network)),
        _Attribute(_RTA_OIF, struct.pack("=I", socket.if_nametoindex(DEVICE))),
        _Attribute(_RTA_PREFSRC, socket.inet_aton(address)),
        _Attribute(_RTA_METRICS, metrics),
    )
    route = struct.pack(
        "=8BI", socket.AF_INET, prefix, 0, 0, _TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_LINK, _TYPE_UNICAST, 0
    )
    body = route + b"".join(each.packed() for each in attributes)
    _ask(_RTM_NEWROUTE, _ACK | _CREATE | _REPLACE, body)


def set_queue_length(packets: int) -> None:
    """How many packets the device holds for the fabric. The ioctl for it wants the host's root."""
    _ask(_RTM_SETLINK, _ACK, _device(DEVICE) + _Attribute(_IFLA_TXQLEN, struct.pack("=I", packets)).packed())


def device_counters(device: str = DEVICE) -> DeviceCounters:
    """What a device of this namespace has counted so far; every node reports its `tx_dropped`."""
    body = _device(device)
    kind, answer = _ask(_RTM_GETLINK, 0, body)
    if kind == _RTM_NEWLINK:
        for attribute in _attributes(answer[len(body) :]):
            if attribute.kind == _IFLA_STATS64:
                return DeviceCounters(*_COUNTERS.unpack_from(attribute.value))
    raise OSError("the kernel told no counters")


def _device(name: str) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, socket.if_nametoindex(name), 0, 0)


def _ask(kind: int, flags: int, body: bytes) -> tuple[int, bytes]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as netlink:
        netlink.bind((0, 0))
        netlink.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 1, 0) + body)
        answer = netlink.recv(_LONGEST_ANSWER)
    size, answered, _, _, _ = _HEADER.unpack_from(answer)
    rest = answer[_HEADER.size : size]
    if answered == _NLMSG_ERROR:
        number = -struct.unpack_from("=i", rest)[0]
        if number:
            raise OSError(number, os.strerror(number))
    return answered, rest


def _attributes(data: bytes) -> Iterator[_Attribute]:
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        if size < _ATTRIBUTE.size:
            return
        yield _Attribute(kind, data[_ATTRIBUTE.size : size])
        data = data[size + -size % 4 :]
