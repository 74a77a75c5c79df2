"""The kernel's counters of a device, as a node reads them for every report."""

from __future__ import annotations

import os
import socket

import pytest

from testbed.engines.counters import CounterReader


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_counters_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without descriptors still reports: all readings use one socket, which goes with the reader."""
    before = descriptors()
    reader = CounterReader("lo")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, monkeypatch.context() as there_are_none:
        there_are_none.delattr(socket, "socket")
        first = reader.read()
        sender.sendto(bytes(100), ("127.0.0.1", 9))
        second = reader.read()
    assert second.tx_packets > first.tx_packets
    assert second.rx_bytes >= first.rx_bytes + 128
    reader.close()
    assert descriptors() == before
