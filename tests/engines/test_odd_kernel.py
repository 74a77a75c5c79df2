"""Kernels before 6.4 know no calls of TUN devices that never wait: the fabric gets on without them."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.engines.fabric.planes import PLANES
from testbed.engines.fabric.python_plane.ports import Ports
from testbed.plan.addresses import address
from tests.engines.odd_kernel import fails_with, make_odd
from tests.engines.world import echo_times, needs_network, pair, world


@pytest.fixture
def _never_waits() -> Iterator[None]:
    """A call that waits ends the test."""

    def waits(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, waits)
    signal.setitimer(signal.ITIMER_REAL, 10.0)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_never_waits")
@pytest.mark.parametrize("is_old", [False, True])
def test_a_node_that_takes_o_nonblock_away_makes_nobody_wait(
    is_old: bool, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_old:
        for name in ("preadv", "pwritev"):
            monkeypatch.setattr(os, name, fails_with(errno.EOPNOTSUPP))
    reading, writing = os.pipe()
    ports = Ports(2)
    one, other = ports.attach(0, reading), ports.attach(1, writing)
    while not other.failed:
        os.set_blocking(writing, True)
        ports.write(1, (b"head", memoryview(bytes(4092))), 2, 4096)
    assert other.failed == {"write EAGAIN": 2}
    assert other.packets_out > 0
    left_bytes = other.bytes_out
    while left_bytes > 0:
        os.set_blocking(reading, True)
        left_bytes -= len(ports.read(one) or b"")
    os.set_blocking(reading, True)
    assert ports.read(one) is None
    assert not one.failed
    ports.close()
    assert capfd.readouterr().err.count("older than 6.4") == is_old


def test_another_error_is_no_sign_of_an_older_kernel(capfd: pytest.CaptureFixture[str]) -> None:
    ports = Ports(1)
    reading, writing = os.pipe()
    os.close(reading)
    port = ports.attach(0, writing)
    assert not ports.write(0, (b"", memoryview(b"x")), 1, 1)
    assert port.failed == {"write EPIPE": 1}
    with pytest.raises(OSError, match="Bad file descriptor"):
        ports.read(port)
    assert port.failed["read EBADF"] == 1
    ports.close()
    assert capfd.readouterr().err == ""


@needs_network
@pytest.mark.parametrize("plane", sorted(PLANES))
def test_a_whole_network_is_carried_there(plane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_odd(monkeypatch, errno.EOPNOTSUPP)
    with world(pair("5ms"), tmp_path, data_plane=plane) as made:
        one, _ = made.node(0, echo_times(address(1), 20, 0.005)), made.node(1)
        one.start()
        assert len(one.result()) == 20
        assert made.status().attached == 2
    assert "older than 6.4" in (tmp_path / "fabric.log").read_text()
