"""The steps of setting up a node's network, by name. Touches nothing."""

from __future__ import annotations

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
