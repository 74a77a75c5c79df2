"""The steps of setting up a node's network, by name.

Takes an OSError, gives a `NetworkDenied`; touches nothing. Imports little, since a container's first process imports
it: `denied` is loaded only when a step is denied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum


class Step(StrEnum):
    """Steps of a node joining its network, in this order; the value is how messages name the step."""

    NAMESPACE = "making a network namespace"
    USER_NAMESPACE = "making a user namespace"
    LOOPBACK = "bringing up the loopback device"
    SETTINGS = "setting TCP's buffers"
    TUN_DEVICE = "opening /dev/net/tun"
    TUN = "making a TUN device"
    ADDRESS = "giving the TUN device its address"
    ROUTE = "setting the route with its congestion control"
    HAND_OVER = "handing the device to the fabric"
    PRIVILEGES = "giving up privileges"


@contextmanager
def during(step: Step) -> Iterator[None]:
    """Turns an OSError raised within into a `NetworkDenied` that names the step."""
    try:
        yield
    except OSError as problem:
        from testbed.engines.denied import NetworkDenied

        raise NetworkDenied(step, problem.strerror or str(problem), problem.errno or 0) from problem
