"""A fabric that could not do what was asked of it says so, whatever the reason."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.engines.fabric.data_plane import BACKLOG, held_bytes
from testbed.engines.fabric.native_plane.forwarder import NativeForwarder
from testbed.engines.fabric.planes import PLANES
from testbed.engines.fabric.python_plane.forwarder import Forwarder
from testbed.engines.fabric.python_plane.plane import PythonPlane
from testbed.engines.fabric.reports import Reports
from testbed.engines.fabric.start import FabricHandle, start_fabric
from testbed.network.graph import expand
from testbed.plan.addresses import address
from testbed.protocol.fabric import FabricStatus, GetStatus
from tests.engines.planes import MakePlane, attached, setup
from tests.engines.quiet import skip_where_nobody_keeps_time
from tests.engines.slow_reader import make_slow
from tests.engines.test_frames import super_segment
from tests.engines.test_real_network import datagrams
from tests.engines.world import configuration, needs_network, pair, tcp_receiver, tcp_sender, world

STOPPED_S = 0.7
"""Longer than a fabric may stand still at once."""


@pytest.mark.parametrize("make", [Forwarder, NativeForwarder])
def test_a_node_that_floods_leaves_room_for_the_others(make: type[Forwarder] | type[NativeForwarder]) -> None:
    given = setup(pair("1s"))
    made = make(given.network, given.addresses, seed=1, mtu=1500, most_held_of_one_bytes=80_000)
    frame = super_segment(10_000)
    for _ in range(8):
        made.offer(0.0, 0, frame)
    assert made.held == 5, "one more than fits, and then no more"
    assert made.unfit[0] == {BACKLOG: 3 * 7}
    theirs = bytearray(frame)
    theirs[22:30] = theirs[26:30] + theirs[22:26]
    made.offer(0.0, 1, bytes(theirs))
    assert made.held == 6
    assert not made.unfit[1]
    assert len(list(made.advance(2.0))) == 6
    made.offer(2.0, 0, frame)
    assert made.held == 1


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in "abcdefghij")


def allocated_bytes() -> int:
    """By the C library: in its heap, and in blocks of their own."""
    call = ctypes.CDLL(None).mallinfo2
    call.restype = _Mallinfo
    told = call()
    return int(told.h + told.e)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library does not tell")
@pytest.mark.parametrize("make", [Forwarder, NativeForwarder])
@pytest.mark.parametrize(("size", "segment"), [(1, 1448), (500, 1448), (1448, 1448), (10_000, 1448), (60_000, 44)])
def test_frames_on_their_way_take_no_more_memory_than_they_count_as(
    make: type[Forwarder] | type[NativeForwarder], size: int, segment: int
) -> None:
    given, count = setup(pair("100s")), 500
    made = make(given.network, given.addresses, seed=1, mtu=1500)
    frame = super_segment(size, segment)
    made.offer(0.0, 0, frame)
    counted_of_one = made.held_bytes
    tracemalloc.start()
    before = allocated_bytes() if make is NativeForwarder else tracemalloc.get_traced_memory()[0]
    for _ in range(count):
        made.offer(0.0, 0, bytes(bytearray(frame)))
    after = allocated_bytes() if make is NativeForwarder else tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert made.held_bytes == (count + 1) * counted_of_one
    assert after - before <= count * counted_of_one
    if make is NativeForwarder:
        assert count * counted_of_one <= 2 * (after - before), "and it is no mere guess"


@pytest.mark.parametrize("size", [1, 30, 1448, 4000, 32_000, 32_700, 33_000, 60_000])
@pytest.mark.parametrize("segment", [44, 1448])
def test_frames_count_as_the_same_in_all_data_planes(size: int, segment: int) -> None:
    given, frame = setup(pair("1s")), super_segment(size, segment)
    counted = []
    for make in (Forwarder, NativeForwarder):
        made = make(given.network, given.addresses, seed=1, mtu=1500)
        made.offer(0.0, 0, frame)
        counted.append(made.held_bytes)
        assert len(list(made.advance(9.0))) == 1
        assert made.held_bytes == 0
    assert counted == [held_bytes(len(frame), max(1, -(-size // segment)))] * 2


def test_so_many_bytes_are_on_their_way_and_no_more(make: MakePlane) -> None:
    plane = make(pair("1s"), most_held_bytes=80_000)
    with attached(plane, 0) as node:
        for _ in range(8):
            node.send(super_segment(10_000))
            plane.run(time.monotonic())
        assert plane.figures().held_frames == 5, "one more than fits, and then no more"
        assert plane.figures().ports[0].unfit == {BACKLOG: 3 * 7}


@contextmanager
def reports(folder: Path, topology: str = pair()) -> Iterator[tuple[Reports, PythonPlane]]:
    config = configuration(topology, folder, folder / "s")
    Path(config.engine).mkdir(exist_ok=True)
    plane = PythonPlane(setup(topology))
    own = Reports(config, expand(config.load_topology()), plane)
    yield own, plane
    own.close()
    plane.close()


NICE = """
import os, sys
from pathlib import Path
from testbed.engines.privileges import drop_privileges
from tests.engines.test_fabric_health import reports
os.nice(5)
drop_privileges()
with reports(Path(sys.argv[1])) as (own, _):
    own.write(1.0)
"""


@pytest.mark.processes
def test_a_fabric_that_was_started_nice_writes_its_files(tmp_path: Path) -> None:
    """An ordinary user's process cannot become less nice again."""
    subprocess.run([sys.executable, "-c", NICE, str(tmp_path)], check=True)
    assert list(tmp_path.rglob("health.json"))


def overloaded(own: Reports) -> tuple[str, ...]:
    return own.status(1, None, set()).overloaded


def test_what_was_dropped_for_want_of_room_or_refused_makes_a_run_overloaded(tmp_path: Path) -> None:
    with reports(tmp_path) as (own, plane):
        ports, unfit = plane._ports.ports, plane._forwarder.unfit
        assert overloaded(own) == ()
        ports[1].failed["absent"] += 5  # there is no device: that is no fault of the fabric's
        assert overloaded(own) == ()
        unfit[0][BACKLOG] += 7
        (why,) = overloaded(own)
        assert why.startswith("7 packets were dropped because too many were on their way")
        ports[1].failed["write EIO"] += 3
        (why, _) = overloaded(own)
        assert why == "3 packets could not be written to their nodes"


def test_the_status_tells_what_was_dropped_by_its_cause(tmp_path: Path) -> None:
    lossy = pair("1ms", "12Mbps", loss="50%", queue="10ms")
    with reports(tmp_path, lossy) as (own, plane):
        made = plane._forwarder
        made.offer(0.0, 0, super_segment(30 * 1448))
        made.offer(0.0, 0, b"noise")
        assert len(list(made.advance(1.0))) < 11
        made.packets.cut(1.0, 1)
        made.offer(1.0, 0, super_segment(1448))
        plane._ports.ports[1].failed["absent"] += 2
        own.write(1.0)
        dropped = own.status(1, None, set()).dropped
        links = plane.counters().links
    assert dropped == {"absent": 2, "loss": links.dropped_loss.sum(), "malformed": 1, "no_path": 1, "queue": 19}
    assert 1 <= dropped["loss"] <= 10


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="no /dev/full here")
def test_files_that_are_incomplete_make_a_run_overloaded_and_end_nothing(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "links.jsonl").symlink_to("/dev/full")
    with reports(tmp_path) as (own, plane):
        plane._forwarder.offer(0.0, 0, super_segment(100))
        list(plane._forwarder.advance(1.0))
        own.write(1.0)
        own.close()
        assert overloaded(own) == ("the engine's files are incomplete: No space left on device",)


def status_of(fabric: FabricHandle) -> FabricStatus:
    status = fabric.connect().ask(GetStatus)
    assert isinstance(status, FabricStatus)
    return status


def stand_still(pid: int, seconds: float) -> None:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


@pytest.mark.processes
def test_a_fabric_that_was_stopped_says_so(tmp_path: Path) -> None:
    fabric = start_fabric(configuration(pair(), tmp_path, tmp_path / "s"), tmp_path / "f")
    try:
        status_of(fabric)  # it looks around now: it says that it is ready a moment before
        time.sleep(0.05)
        stand_still(fabric.pid, STOPPED_S)
        assert any("the fabric got no processor for" in why for why in status_of(fabric).overloaded)
    finally:
        fabric.stop()


@needs_network
def test_packets_that_waited_for_a_stopped_fabric_are_late(tmp_path: Path) -> None:
    """They were due, one each millisecond, while it stood still."""
    with world(pair("50ms"), tmp_path) as made:
        one, _ = made.node(0, datagrams(address(1), 600, 1, 0.001)), made.node(1)
        made.begin()
        one.start()
        time.sleep(0.2)
        stand_still(made.fabric.pid, STOPPED_S)
        one.result()
        time.sleep(0.2)
        lateness = made.status().lateness
        health = made.finish()
    assert lateness.count > 100
    assert 1e3 * (STOPPED_S - 0.1) < lateness.max_ms < 60e3
    assert health.overloaded


@needs_network
def test_a_node_was_given_all_packets_that_arrived_and_no_others(tmp_path: Path) -> None:
    """However many of TCP's segments are written at once."""
    with world(pair("2ms", "unlimited"), tmp_path) as made:
        one, other = made.node(0, tcp_sender(address(1), 0.5)), made.node(1, tcp_receiver(0.2, warm_up_s=0.1))
        made.begin()
        other.start()
        one.start()
        other.result()
        one.result()
        time.sleep(0.1)
        health = made.finish()
    assert not any(node.failed for node in health.nodes)
    pairs = [each for line in made.lines() for each in line.get("pairs") or []]
    for node, dest in zip(health.nodes, range(2), strict=True):
        arrived = [each for each in pairs if each["dest"] == dest]
        assert node.packets_out == sum(each.get("arrived_packets", 0) for each in arrived) > 20
        assert node.bytes_out == sum(each.get("arrived_bytes", 0) for each in arrived)
    assert health.nodes[1].packets_out > 2 * health.nodes[0].frames_in, "most came many at once"


@needs_network
@pytest.mark.alone
@pytest.mark.parametrize("plane", sorted(PLANES))
@pytest.mark.parametrize("is_slow", [False, True])
def test_a_fabric_that_reads_late_under_load_says_so(
    is_slow: bool, plane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five hundred datagrams a second are nothing for one that does not, and every packet of it is in time."""
    if is_slow:
        make_slow(monkeypatch)
    with world(pair("50ms"), tmp_path, data_plane=plane) as made:
        one, _ = made.node(0, datagrams(address(1), 500, 1, 0.002)), made.node(1)
        made.begin()
        one.start()
        one.result()
        time.sleep(0.2)
        health = made.finish()
    if not is_slow:
        skip_where_nobody_keeps_time(health.overloaded)
    told = [why for why in health.overloaded if "in nodes' devices before the fabric read them" in why]
    assert bool(told) == is_slow
    assert (health.device_waits.p99_ms > 100) == is_slow
    assert (health.device_wait_share > 0.5) == is_slow
    assert health.device_waits.count > 30
