"""A node's device: made, configured, handed over to the fabric.

Takes what it is like and the socket that only this node has, gives its descriptor; touches the calling process'
network, and its privileges. Light: a container's first process imports it, and how the fabric's answers are read is
loaded where it gives another than the one it should.
"""

from __future__ import annotations

import os
import socket

from testbed.engines.netlink import set_queue_length, set_route
from testbed.engines.privileges import User, acting_as, drop_privileges
from testbed.engines.steps import Step, during
from testbed.engines.tun import MTU, QUEUE_LENGTH, bring_up, configure, make_tun, open_device
from testbed.first_words import ATTACH, ATTACHED, MAX_MESSAGE_BYTES
from testbed.socket_paths import connect

NETWORK, PREFIX = "198.18.0.0", 15
"""Where all addresses of nodes are."""
_TIMEOUT_MS = 200
"""TCP waits at least so long, besides a round trip, before it sends again: the kernel's own minimum."""
_PATIENCE_S = 30
"""How long the fabric may take to answer; a loaded machine starts hundreds of nodes at once."""


class NodeDevice:
    """What a node's end of the network is like, and when its TCP thinks that a packet is lost."""

    def __init__(
        self, address: str, congestion: str, time_scale: float, mtu: int = MTU, queue_length: int = QUEUE_LENGTH
    ) -> None:
        self.address = address
        self.congestion = congestion
        self.time_scale = time_scale
        self.mtu = mtu
        self.queue_length = queue_length


def join_container_network(device: NodeDevice, fabric_socket: str | os.PathLike[str], user: User) -> None:
    """Device, address, route, in a namespace that somebody else has made, with TCP's settings: a container's.

    Its root calls it, of whom nothing is left afterwards. Raises NetworkDenied, which names the step.
    """
    with during(Step.LOOPBACK):
        bring_up("lo")
    descriptor = make_device(device)
    try:
        with acting_as(user):
            hand_over(descriptor, fabric_socket)
    finally:
        os.close(descriptor)
    with during(Step.PRIVILEGES):
        drop_privileges(user)


def make_device(device: NodeDevice) -> int:
    """The node's device, up and with its route; its descriptor is the other end."""
    with during(Step.TUN_DEVICE):
        descriptor = open_device()
    try:
        with during(Step.TUN):
            make_tun(descriptor)
        with during(Step.ADDRESS):
            set_queue_length(device.queue_length)
            configure(device.address, device.mtu)
        with during(Step.ROUTE):
            timeout_ms = None if device.time_scale == 1.0 else round(_TIMEOUT_MS * device.time_scale)
            set_route(NETWORK, PREFIX, device.address, device.congestion, timeout_ms)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def hand_over(descriptor: int, fabric_socket: str | os.PathLike[str]) -> None:
    """The fabric has the descriptor and carries the node's packets."""
    with during(Step.HAND_OVER), connect(fabric_socket, _PATIENCE_S) as fabric:
        socket.send_fds(fabric, [ATTACH], [descriptor])
        data = fabric.recv(MAX_MESSAGE_BYTES)
    if data != ATTACHED:
        _why_not(data)


def _why_not(answer: bytes) -> None:
    """Raises NetworkDenied, unless it says after all that the fabric has the device."""
    from testbed.engines.denied import NetworkDenied
    from testbed.protocol.fabric import FROM_FABRIC_TO_NODE, Refused
    from testbed.protocol.message import ProtocolError

    if not answer:
        raise NetworkDenied(Step.HAND_OVER, "the fabric hung up")
    try:
        read = FROM_FABRIC_TO_NODE.read(answer)
    except ProtocolError as problem:
        raise NetworkDenied(Step.HAND_OVER, f"the fabric's answer cannot be read: {problem}") from None
    if isinstance(read, Refused):
        raise NetworkDenied(Step.HAND_OVER, read.reason)
