"""The time of a datagram is that of the kernel, not of the reading process."""

from __future__ import annotations

import socket
import time

import pytest

from testbed.verify.sockets import receiver, take

_LOOKED_AFTER_S = 0.05
_MOST_ATTEMPTS = 40
"""The kernel begins to stamp in its own time."""


def test_a_datagram_came_when_it_came_though_nobody_looked() -> None:
    with receiver(0) as own, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        for _ in range(_MOST_ATTEMPTS):
            before_s = time.monotonic()
            other.sendto(b"probe", ("127.0.0.1", own.getsockname()[1]))
            sent_s = time.monotonic()
            time.sleep(_LOOKED_AFTER_S)
            data, came_s, sender = take(own)
            assert (data, sender[0]) == (b"probe", "127.0.0.1")
            assert came_s >= before_s - 0.001
            if came_s < sent_s + _LOOKED_AFTER_S / 2:
                return
    raise AssertionError("no datagram was stamped when it came")


def test_who_loses_the_processor_between_two_clocks_is_late_and_not_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a fabric that is too slow looked right."""
    real = time.monotonic

    def slow() -> float:
        time.sleep(0.02)
        return real()

    with receiver(0) as own, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        before_s = real()
        other.sendto(b"probe", ("127.0.0.1", own.getsockname()[1]))
        monkeypatch.setattr(time, "monotonic", slow)
        assert take(own)[1] >= before_s - 0.001


def test_a_socket_that_does_not_stamp_gives_when_somebody_looked() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        own.bind(("127.0.0.1", 0))
        other.sendto(b"probe", own.getsockname())
        time.sleep(0.02)
        looked_s = time.monotonic()
        assert take(own)[1] >= looked_s
