"""Joins a node to the emulated network.

Takes settings and the node's own socket to the fabric, gives nothing; touches the calling process, which must have one
thread. Afterwards it has a network namespace, a device whose other end is the fabric, and no privileges.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from testbed.engines.attempt import during
from testbed.engines.device import NodeDevice, hand_over, make_device
from testbed.engines.namespace import TcpSettings, enter_namespace
from testbed.engines.privileges import User, drop_privileges
from testbed.engines.steps import Step
from testbed.engines.tun import MTU, QUEUE_LENGTH


@dataclass(frozen=True, slots=True)
class NodeNetwork:
    """Settings of a node's end of the network."""

    address: str
    tcp: TcpSettings
    mtu: int = MTU
    queue_length: int = QUEUE_LENGTH

    @property
    def device(self) -> NodeDevice:
        return NodeDevice(self.address, self.tcp.congestion, self.tcp.time_scale, self.mtu, self.queue_length)


def join_network(node: NodeNetwork, fabric_socket: Path, user: User | None = None) -> None:
    """Makes namespace, device, address and route, hands the device to the fabric, and drops privileges.

    Raises NetworkDenied, which names the step. `user` is the node's user afterwards, where root was needed before.
    """
    enter_namespace(node.tcp)
    descriptor = make_device(node.device)
    try:
        hand_over(descriptor, fabric_socket)
    finally:
        os.close(descriptor)
    with during(Step.PRIVILEGES):
        drop_privileges(user)
