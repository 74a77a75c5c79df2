"""Makes a node's device, configures it and hands it to the fabric.

Takes its settings and the node's own socket to the fabric, gives its descriptor; touches the calling process's network
and privileges. Imports little, since a container's first process imports it: the reader of the fabric's answers is
loaded only for an unexpected one.
"""

from __future__ import annotations

import os
import socket

from testbed.engines.attempt import during
from testbed.engines.netlink import set_queue_length, set_route
from testbed.engines.privileges import User, acting_as, drop_privileges
from testbed.engines.steps import Step
from testbed.engines.tun import MTU, QUEUE_LENGTH, bring_up, configure, make_tun, open_device
from testbed.first_words import ATTACH, ATTACHED, MAX_MESSAGE_BYTES
from testbed.socket_paths import connect

NETWORK, PREFIX = "198.18.0.0", 15
"""The subnet of all nodes' addresses."""
_TIMEOUT_MS = 200
"""The kernel's minimum of TCP's retransmission timeout, on top of a round trip."""
_PATIENCE_S = 30
"""How long the fabric may take to answer; a loaded machine starts hundreds of nodes at once."""


class NodeDevice:
    """Settings of a node's device, route and TCP retransmission timeout."""

    def __init__(
        self, address: str, congestion: str, time_scale: float, mtu: int = MTU, queue_length: int = QUEUE_LENGTH
    ) -> None:
        self.address = address
        self.congestion = congestion
        self.time_scale = time_scale
        self.mtu = mtu
        self.queue_length = queue_length


def join_container_network(device: NodeDevice, fabric_socket: str | os.PathLike[str], user: User) -> None:
    """Makes device, address and route in a container's namespace, which has TCP's settings already.

    Called as root; afterwards the process is `user`, without privileges. Raises NetworkDenied, which names the step.
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
    """Makes the node's device, up and with its route; returns the descriptor of its other end."""
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
    """Passes the descriptor to the fabric and waits until it carries the node's packets."""
    with during(Step.HAND_OVER), connect(fabric_socket, _PATIENCE_S) as fabric:
        socket.send_fds(fabric, [ATTACH], [descriptor])
        data = fabric.recv(MAX_MESSAGE_BYTES)
    if data != ATTACHED:
        _why_not(data)


def _why_not(answer: bytes) -> None:
    """Raises NetworkDenied for any answer other than that the fabric has the device."""
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
