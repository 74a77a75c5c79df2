"""The kernel's counters of a device. Takes its name, gives them; asks the calling process's network namespace."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from testbed.engines.netlink import ATTRIBUTE, ask_over, named, opened
from testbed.engines.tun import DEVICE

_RTM_NEWLINK, _RTM_GETLINK = 16, 18
_IFLA_STATS64 = 23
_COUNTERS = struct.Struct("=8Q")


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
    """If any, the network was not the one asked for."""


class CounterReader:
    """Reads the counters of a device of this namespace; every node reports its `tx_dropped`."""

    def __init__(self, device: str = DEVICE) -> None:
        self._device = named(device)
        self._netlink = opened()

    def read(self) -> DeviceCounters:
        kind, answer = ask_over(self._netlink, _RTM_GETLINK, 0, self._device)
        if kind == _RTM_NEWLINK:
            for kind, value in _attributes(answer[len(self._device) :]):
                if kind == _IFLA_STATS64:
                    return DeviceCounters(*_COUNTERS.unpack_from(value))
        raise OSError("the kernel told no counters")

    def close(self) -> None:
        self._netlink.close()


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= ATTRIBUTE.size:
        size, kind = ATTRIBUTE.unpack_from(data)
        if size < ATTRIBUTE.size:
            return
        yield kind, data[ATTRIBUTE.size : size]
        data = data[size + -size % 4 :]
