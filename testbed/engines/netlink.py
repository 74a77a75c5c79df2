"""Netlink requests: a route with a congestion control, a queue's length without root.

Takes values, gives values; touches the network namespace of the calling process. Needs no library, since each is one
message. Imports little, since a container's first process imports it.
"""

from __future__ import annotations

import os
import socket
import struct

from testbed.engines.tun import DEVICE

_NLMSG_ERROR = 2
_RTM_SETLINK, _RTM_NEWROUTE = 19, 24
_REQUEST, _ACK, _REPLACE, _CREATE = 0x1, 0x4, 0x100, 0x400
_RTA_DST, _RTA_OIF, _RTA_PREFSRC, _RTA_METRICS = 1, 4, 7, 8
_RTAX_LOCK, _RTAX_RTO_MIN, _RTAX_CC_ALGO = 1, 13, 16
_IFLA_TXQLEN = 13
_TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_LINK, _TYPE_UNICAST = 254, 4, 253, 1
_HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
_LONGEST_ANSWER = 32_768


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute encoded for a message."""
    size = ATTRIBUTE.size + len(value)
    return ATTRIBUTE.pack(size, kind) + value + bytes(-size % 4)


def set_route(network: str, prefix: int, address: str, congestion: str, timeout_ms: int | None = None) -> None:
    """Sets the congestion control and the minimum retransmission timeout of connections to a network."""
    metrics = attribute(_RTAX_CC_ALGO, congestion.encode() + b"\0")
    if timeout_ms is not None:
        metrics += attribute(_RTAX_LOCK, struct.pack("=I", 1 << _RTAX_RTO_MIN))
        metrics += attribute(_RTAX_RTO_MIN, struct.pack("=I", timeout_ms))
    attributes = (
        attribute(_RTA_DST, socket.inet_aton(network)),
        attribute(_RTA_OIF, struct.pack("=I", socket.if_nametoindex(DEVICE))),
        attribute(_RTA_PREFSRC, socket.inet_aton(address)),
        attribute(_RTA_METRICS, metrics),
    )
    route = struct.pack(
        "=8BI", socket.AF_INET, prefix, 0, 0, _TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_LINK, _TYPE_UNICAST, 0
    )
    body = route + b"".join(attributes)
    ask(_RTM_NEWROUTE, _ACK | _CREATE | _REPLACE, body)


def set_queue_length(packets: int) -> None:
    """Sets how many packets the device queues for the fabric. The ioctl for this needs root on the host."""
    ask(_RTM_SETLINK, _ACK, named(DEVICE) + attribute(_IFLA_TXQLEN, struct.pack("=I", packets)))


def named(name: str) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, socket.if_nametoindex(name), 0, 0)


def ask(kind: int, flags: int, body: bytes) -> tuple[int, bytes]:
    with opened() as netlink:
        return ask_over(netlink, kind, flags, body)


def opened() -> socket.socket:
    """A socket for requests to the namespace that the calling process has now."""
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    netlink.bind((0, 0))
    return netlink


def ask_over(netlink: socket.socket, kind: int, flags: int, body: bytes) -> tuple[int, bytes]:
    netlink.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 1, 0) + body)
    answer = netlink.recv(_LONGEST_ANSWER)
    size, answered, _, _, _ = _HEADER.unpack_from(answer)
    rest = answer[_HEADER.size : size]
    if answered == _NLMSG_ERROR:
        number = -struct.unpack_from("=i", rest)[0]
        if number:
            raise OSError(number, os.strerror(number))
    return answered, rest
