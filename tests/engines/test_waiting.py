"""Since when a device may have had something to read: what tells a fabric that cannot keep up."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator

import pytest

from testbed.engines.fabric.dispatcher import Dispatcher
from testbed.engines.fabric.python_plane.ports import UNSURE_S, Port
from testbed.engines.fabric.python_plane.waiting import HEARTBEAT_S, Waiting

Device = tuple[Port, int]
"""A port, and the end to write to."""


@pytest.fixture
def devices(waiting: Waiting) -> Iterator[list[Device]]:
    found = []
    for rank in range(2):
        reader, writer = os.pipe()
        port = Port(rank, descriptor=reader)
        waiting.add_port(port)
        found.append((port, writer))
    yield found
    for port, writer in found:
        os.close(port.descriptor)
        os.close(writer)


def ready(waiting: Waiting) -> set[int]:
    return {port.rank for port in waiting.ready_ports(0.0)}  # long past: it does not wait


def test_what_is_read_has_waited_no_longer_than_since_all_were_last_asked(
    waiting: Waiting, devices: list[Device]
) -> None:
    port, writer = devices[0]
    assert ready(waiting) == set()
    asked_s = time.monotonic()
    time.sleep(0.02)
    os.write(writer, b"xx")
    written_s = time.monotonic()
    assert ready(waiting) == {0}
    assert port.since_s <= asked_s < written_s


def test_who_always_has_more_waits_since_it_last_had_nothing(waiting: Waiting, devices: list[Device]) -> None:
    (busy, to_busy), (calm, to_calm) = devices
    ready(waiting)
    os.write(to_busy, b"x" * 10)
    assert ready(waiting) == {0}
    since_s = busy.since_s
    for _ in range(5):
        os.read(busy.descriptor, 1)
        assert 0 in ready(waiting)
        assert busy.since_s == since_s
    os.write(to_calm, b"x")
    assert ready(waiting) == {0, 1}
    assert busy.since_s == since_s < calm.since_s


def test_who_had_nothing_in_between_begins_anew(waiting: Waiting, devices: list[Device]) -> None:
    port, writer = devices[0]
    os.write(writer, b"x")
    assert ready(waiting) == {0}
    since_s = port.since_s
    os.read(port.descriptor, 1)
    assert ready(waiting) == set()
    asked_s = time.monotonic()
    os.write(writer, b"x")
    assert ready(waiting) == {0}
    assert since_s < port.since_s <= asked_s


def test_a_call_that_has_waited_shows_that_nobody_had_anything(waiting: Waiting, devices: list[Device]) -> None:
    port, writer = devices[0]
    os.write(writer, b"x")
    assert ready(waiting) == {0}
    os.read(port.descriptor, 1)
    before_s = time.monotonic()
    assert list(waiting.ready_ports(before_s + 0.005)) == []
    os.write(writer, b"x")
    assert ready(waiting) == {0}
    assert port.since_s >= before_s + 0.005


def test_who_oversleeps_has_not_looked_since_it_was_to_wake(
    waiting: Waiting, devices: list[Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a process that gets no processor: it had to look after ten milliseconds at the latest, and did not."""
    port, writer = devices[0]
    os.write(writer, b"x")
    asked_s = time.monotonic()
    times = iter([asked_s, asked_s + 0.5])
    monkeypatch.setattr("testbed.engines.fabric.python_plane.waiting.time.monotonic", lambda: next(times))
    assert [each.rank for each in waiting.ready_ports(asked_s + 3.0)] == [0]
    assert waiting.overslept_s == pytest.approx(0.5 - HEARTBEAT_S)
    assert port.since_s == pytest.approx(asked_s + HEARTBEAT_S)


def test_who_did_not_mean_to_wait_and_took_long_has_not_slept(
    waiting: Waiting, devices: list[Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others got the processor in the middle of the call: what is ready may have come before that."""
    (port, writer), (held, _) = devices
    assert ready(waiting) == set()
    asked_s = waiting._polled_s
    os.write(writer, b"x")
    times = iter([asked_s + 0.1, asked_s + 0.2])
    monkeypatch.setattr("testbed.engines.fabric.python_plane.waiting.time.monotonic", lambda: next(times))
    assert [each.rank for each in waiting.ready_ports(asked_s + 3.0, {1: held})] == [0, 1]
    assert port.since_s == asked_s
    assert waiting.overslept_s == pytest.approx(0.1)


def sleep(waiting: Waiting) -> tuple[float, float]:
    """When it began to wait, and when it was to wake."""
    asked_s = time.monotonic()
    due_s = asked_s + 0.003
    early_s = waiting.early_s
    assert list(waiting.ready_ports(due_s)) == []
    return asked_s, due_s - early_s


def test_who_knows_how_long_waking_takes_wakes_a_moment_early(waiting: Waiting) -> None:
    """And takes what woke it for so much older; never for older than its last look."""
    assert waiting.early_s == 0.0
    for _ in range(100):
        asked_s, _ = sleep(waiting)
        now_s = time.monotonic()
        assert asked_s <= waiting.arrived_s <= now_s
    assert 0.0 < waiting.early_s <= 0.0003
    for _ in range(3):
        _, due_s = sleep(waiting)
        assert due_s <= waiting.arrived_s < waiting._polled_s


def test_who_hardly_sleeps_is_not_early(waiting: Waiting) -> None:
    """It would wait in vain for what is to be done next, all the time."""
    for _ in range(100):
        sleep(waiting)
    assert waiting.early_s > 0.0
    for _ in range(1000):
        assert ready(waiting) == set()  # it does not wait
    assert waiting.early_s == 0.0


def test_it_is_woken_when_the_control_plane_has_something_to_do(waiting: Waiting, dispatcher: Dispatcher) -> None:
    reader, writer = os.pipe()
    heard: list[bytes] = []
    dispatcher.add(reader, lambda: heard.append(os.read(reader, 9)))

    def is_woken(within_s: float) -> bool:
        assert list(waiting.ready_ports(time.monotonic() + within_s)) == []
        return waiting.is_woken

    assert not is_woken(0.0)
    os.write(writer, b"x")
    asked_s = time.monotonic()
    assert is_woken(5.0)
    assert time.monotonic() - asked_s < HEARTBEAT_S / 2
    dispatcher.dispatch()
    assert heard == [b"x"]
    assert not is_woken(0.0)
    dispatcher.remove(reader)
    for each in (reader, writer):
        os.close(each)


def test_nodes_of_which_something_was_read_before_come_last_and_nobody_waits_for_more(
    waiting: Waiting, devices: list[Device]
) -> None:
    (_, to_one), (other, _) = devices
    asked_s = time.monotonic()
    assert [port.rank for port in waiting.ready_ports(asked_s + 5.0, {1: other})] == [1]
    assert time.monotonic() - asked_s < HEARTBEAT_S / 2
    assert waiting.overslept_s < HEARTBEAT_S / 2
    os.write(to_one, b"x")
    assert [port.rank for port in waiting.ready_ports(asked_s + 5.0, {1: other})] == [0, 1]
    held = {port.rank: port for port, _ in devices}
    assert [port.rank for port in waiting.ready_ports(asked_s + 5.0, held)] == [0, 1], "each once"


def test_a_device_that_was_empty_is_as_if_it_had_never_been_behind(waiting: Waiting, devices: list[Device]) -> None:
    port, writer = devices[0]
    port.look_after_s, port.longest_s = 1.0, 0.5
    os.write(writer, b"x")
    assert ready(waiting) == {0}
    assert (port.look_after_s, port.longest_s) == (UNSURE_S, math.inf)
