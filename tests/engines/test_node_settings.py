"""What a node's namespace is like, and which devices the fabric does not take."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.engines.namespace import TcpSettings
from testbed.engines.tun import NotATun, check_tun, make_tun, open_device
from tests.engines.test_hostile import in_namespace_of_its_own
from tests.engines.world import needs_network, pair, world

_TUNSETIFF, _TUNSETVNETHDRSZ = 0x400454CA, 0x400454D8
_TUN, _MULTI_QUEUE, _NO_PI, _VNET_HDR = 0x1, 0x100, 0x1000, 0x4000
LARGE = 8 << 20


@needs_network
@pytest.mark.parametrize("idle_restart", [True, False])
def test_a_namespace_has_the_settings_of_the_plan(idle_restart: bool, tmp_path: Path) -> None:
    settings = TcpSettings(buffer_bytes=LARGE, idle_restart=idle_restart)
    with world(pair(), tmp_path) as made:
        one = made.node(0, what_is_set, tcp=settings)
        one.start()
        found = one.result()
    assert found["tcp_rmem"][2] == found["tcp_wmem"][2] == LARGE
    assert found["tcp_slow_start_after_idle"] == [int(idle_restart)]
    assert found["tcp_notsent_lowat"] == [settings.notsent_lowat_bytes]
    assert found["tcp_no_metrics_save"] == [1]


def what_is_set() -> dict[str, list[int]]:
    names = ("tcp_rmem", "tcp_wmem", "tcp_slow_start_after_idle", "tcp_notsent_lowat", "tcp_no_metrics_save")
    folder = Path("/proc/sys/net/ipv4")
    return {name: [int(word) for word in (folder / name).read_text().split()] for name in names}


def right_device() -> int:
    descriptor = open_device()
    make_tun(descriptor)
    return descriptor


def several_queues() -> int:
    """A process with the other queues would get part of the packets."""
    descriptor = open_device()
    flags = _TUN | _NO_PI | _VNET_HDR | _MULTI_QUEUE
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", b"eth0", flags))
    return descriptor


def other_header() -> int:
    descriptor = right_device()
    fcntl.ioctl(descriptor, _TUNSETVNETHDRSZ, struct.pack("i", 12))
    return descriptor


@needs_network
@pytest.mark.parametrize(
    ("make", "why"),
    [(right_device, None), (several_queues, "wrong kind"), (other_header, "vnet header has 12 bytes")],
)
def test_only_the_right_kind_of_device_is_taken(make: Callable[[], int], why: str | None) -> None:
    descriptor = in_namespace_of_its_own(make)
    try:
        if why is None:
            check_tun(descriptor)
            return
        with pytest.raises(NotATun, match=why):
            check_tun(descriptor)
    finally:
        os.close(descriptor)
