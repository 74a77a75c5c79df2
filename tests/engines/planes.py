"""Data planes, for tests of one without a fabric."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from testbed.engines.fabric.data_plane import DataPlane, Setup
from testbed.engines.fabric.delays import limits
from testbed.network.graph import expand
from testbed.plan.addresses import address
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form

MakePlane = Callable[..., DataPlane]
"""Of a topology, and of what its `Setup` has besides."""
NEVER_READABLE = os.eventfd(0, os.EFD_CLOEXEC)


def setup(topology: str, form: Form = Form.YAML, **more: Any) -> Setup:
    loaded = load_bytes(topology.encode(), form, "test").require()
    addresses = [socket.inet_aton(address(node.rank)) for node in loaded.nodes]
    made = Setup(
        network=expand(loaded),
        addresses=addresses,
        cut=(),
        seed=1,
        mtu=1500,
        in_order=True,
        time_scale=1.0,
        limits=limits(1.0),
        wakeup=NEVER_READABLE,
    )
    return made._replace(**more)


def attached(plane: DataPlane, port: int) -> socket.socket:
    """The other end of the port's device."""
    theirs, ours = socket.socketpair(type=socket.SOCK_SEQPACKET)
    theirs.settimeout(1.0)
    plane.attach(port, ours.detach())
    return theirs
