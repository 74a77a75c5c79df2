"""How a node gets its place in the emulated network.

Takes settings and the socket that only this node has, gives nothing; touches the calling process, which has one
thread, and afterwards has a network namespace of its own, a device whose other end is the fabric, and no privileges.
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from testbed.engines.denied import NetworkDenied, Step, during
from testbed.engines.namespace import TcpSettings, enter_namespace
from testbed.engines.netlink import set_queue_length, set_route
from testbed.engines.privileges import User, drop_privileges
from testbed.engines.tun import MTU, QUEUE_LENGTH, configure, make_tun, open_device
from testbed.protocol import FROM_FABRIC_TO_NODE, MAX_MESSAGE_BYTES, Attach, ProtocolError, Refused, encode

NETWORK, PREFIX = "198.18.0.0", 15
"""Where all addresses of nodes are."""
_TIMEOUT_MS = 200
"""TCP waits at least so long, besides a round trip, before it sends again: the kernel's own minimum."""
_PATIENCE_S = 30
"""How long the fabric may take to answer; a loaded machine starts hundreds of nodes at once."""


@dataclass(frozen=True, slots=True)
class NodeNetwork:
    """What a node's end of the network is like."""

    address: str
    tcp: TcpSettings
    mtu: int = MTU
    queue_length: int = QUEUE_LENGTH


def join_network(node: NodeNetwork, fabric_socket: Path, user: User | None = None) -> None:
    """Namespace, device, address, route; the fabric has the other end; no privileges are left.

    Raises NetworkDenied, which names the step. `user` is who the node is afterwards, where root was needed only here.
    """
    enter_namespace(node.tcp)
    descriptor = make_device(node)
    try:
        hand_over(descriptor, fabric_socket)
    finally:
        os.close(descriptor)
    with during(Step.PRIVILEGES):
        drop_privileges(user)


def make_device(node: NodeNetwork) -> int:
    """The node's device, up and with its route; its descriptor is the other end."""
    with during(Step.TUN_DEVICE):
        descriptor = open_device()
    try:
        with during(Step.TUN):
            make_tun(descriptor)
        with during(Step.ADDRESS):
            set_queue_length(node.queue_length)
            configure(node.address, node.mtu)
        with during(Step.ROUTE):
            timeout_ms = None if node.tcp.time_scale == 1.0 else round(_TIMEOUT_MS * node.tcp.time_scale)
            set_route(NETWORK, PREFIX, node.address, node.tcp.congestion, timeout_ms)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def hand_over(descriptor: int, fabric_socket: Path) -> None:
    """The fabric has the descriptor and carries the node's packets."""
    with during(Step.HAND_OVER), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as fabric:
        # Not `settimeout` yet: it would not wait while the fabric has many callers.
        fabric.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _PATIENCE_S, 0))
        fabric.connect(str(fabric_socket))
        fabric.settimeout(_PATIENCE_S)
        socket.send_fds(fabric, [encode(Attach())], [descriptor])
        data = fabric.recv(MAX_MESSAGE_BYTES)
    if not data:
        raise NetworkDenied(Step.HAND_OVER, "the fabric hung up")
    try:
        answer = FROM_FABRIC_TO_NODE.read(data)
    except ProtocolError as problem:
        raise NetworkDenied(Step.HAND_OVER, f"the fabric's answer cannot be read: {problem}") from None
    if isinstance(answer, Refused):
        raise NetworkDenied(Step.HAND_OVER, answer.reason)
