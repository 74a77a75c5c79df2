"""The seam between the fabric and its data plane: another implementation takes its place, and the one in Python."""

from __future__ import annotations

import ast
import math
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import testbed.engines.fabric
from testbed.engines.device import hand_over
from testbed.engines.fabric import planes
from testbed.engines.fabric.data_plane import Figures, LostDevice, PortFigures, Setup, UnderWay, held_bytes
from testbed.engines.fabric.delays import limits
from testbed.engines.fabric.fabric import Fabric
from testbed.engines.fabric.python_plane.delay_counts import DelayCounts
from testbed.engines.fabric.sockets import node_socket
from testbed.engines.fabric.start import FabricConversation
from testbed.engines.tun import NotATun
from testbed.errors import UsageProblem
from testbed.network.graph import Network
from testbed.network.packets import Packets, Routes, Snapshot
from testbed.plan.addresses import address
from testbed.protocol.fabric import (
    Applied,
    Begin,
    Capture,
    Cut,
    Denied,
    Detach,
    Done,
    FabricStatus,
    GetStatus,
    NodeAttached,
    NodeDetached,
    Quit,
    SetLink,
    Uncut,
    Watch,
)
from tests.engines.planes import MakePlane, attached, setup
from tests.engines.test_frames import ip, super_segment, vnet
from tests.engines.world import configuration, links, pair


class Toy:
    """Carries frames to the other port at once, whatever the network; keeps a record of all that it is told."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.told: list[tuple[Any, ...]] = []
        self.devices: dict[int, int] = {}
        self.frames = [0] * len(setup.addresses)
        self.model = Packets(setup.network, seed=setup.seed)
        self.is_closed = False

    def attach(self, port: int, descriptor: int) -> bool:
        replaces = self.detach(port)
        self.devices[port] = descriptor
        return replaces

    def detach(self, port: int) -> bool:
        descriptor = self.devices.pop(port, None)
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is not None

    def change(self, at_s: float, network: Network, routes: Routes | None = None) -> float:
        self.told.append(("change", at_s, float(network.latency_ms.max()), routes is not None))
        return at_s

    def cut(self, at_s: float, ports: Collection[int]) -> float:
        self.told.append(("cut", *ports))
        return at_s

    def uncut(self, at_s: float, ports: Collection[int]) -> float:
        self.told.append(("uncut", *ports))
        return at_s

    def run(self, until_s: float) -> list[LostDevice]:
        while (now_s := time.monotonic()) < until_s:
            ready = select.select([self.setup.wakeup, *self.devices.values()], [], [], until_s - now_s)[0]
            for port, descriptor in list(self.devices.items()):
                if descriptor in ready:
                    data = os.read(descriptor, 65_536)
                    if not data:
                        self.detach(port)
                        return [LostDevice(port, "it is gone")]
                    self.frames[port] += 1
                    os.write(self.devices[1 - port], data)
            if self.setup.wakeup in ready:
                break
        return []

    def take(self, frame: UnderWay) -> bool:
        raise NotImplementedError

    def begin_capture(self, port: int, path: Path) -> None:
        self.told.append(("capture", port, path.name))

    def end_capture(self, port: int) -> str | None:
        self.told.append(("end of capture", port))
        return "it is a toy"

    def counters(self) -> Snapshot:
        return self.model.snapshot()

    def figures(self) -> Figures:
        ports = [PortFigures(rank in self.devices, frames, 0, 0, {}, {}) for rank, frames in enumerate(self.frames)]
        return Figures(ports, 0, 0, DelayCounts(self.setup.limits, 0.0).figures())

    def restart_delays(self) -> None:
        self.told.append(("begin",))

    def close(self) -> None:
        for port in list(self.devices):
            self.detach(port)
        self.is_closed = True


EVENTS = [
    {"at": "0.1s", "link": ["n.0", "n.1"], "latency": "30ms"},
    {"at": "0.2s", "node": "n.1", "do": "disconnect", "for": "0.1s"},
]


def test_another_data_plane_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attaching, requests, the timeline, reports and lost devices need no more of it than the interface."""
    made: list[Toy] = []

    def make(setup: Setup) -> Toy:
        made.append(Toy(setup))
        return made[0]

    monkeypatch.setitem(planes.PLANES, "toy", make)
    monkeypatch.setattr("testbed.engines.fabric.fabric.signal.signal", lambda *_: None)
    topology = links(2, [("n.0", "n.1", {"latency": "10ms", "rate": "unlimited"})], events=EVENTS)
    config = configuration(topology, tmp_path, tmp_path / "s", data_plane="toy")
    Path(config.engine).mkdir()
    fabric = Fabric(config)
    failed: list[BaseException] = []

    def talk() -> None:
        try:
            _talk(config.control_socket, tmp_path)
        except BaseException as problem:
            failed.append(problem)
            fabric.quit()

    thread = threading.Thread(target=talk)
    thread.start()
    fabric.run()
    thread.join()
    assert not failed, failed
    (toy,) = made
    assert toy.is_closed
    kinds = [told[0] for told in toy.told]
    assert kinds == ["begin", "change", "cut", "uncut", "change", "cut", "uncut", "capture", "end of capture"]
    assert toy.told[1][2:] == (30.0, True), "with routes that were prepared"
    assert toy.told[4][2] == 99.0
    assert toy.told[-2:] == [("capture", 0, "a.pcap"), ("end of capture", 0)]
    assert b'"data_plane":"toy"' in (Path(config.engine) / "health.json").read_bytes()


def _talk(control: Path, folder: Path) -> None:
    conversation = FabricConversation(control)
    conversation.ask(Watch)
    one, other = _device(control.parent, 0), _device(control.parent, 1)
    one.send(b"frame")
    assert other.recv(100) == b"frame"
    conversation.ask(lambda n: Begin(n, time.monotonic()))
    time.sleep(0.4)
    assert isinstance(conversation.ask(lambda n: SetLink(n, "n.0", "n.1", latency_ms=99.0)), Done)
    conversation.ask(lambda n: Cut(n, (0,)))
    conversation.ask(lambda n: Uncut(n, (0,)))
    conversation.ask(lambda n: Capture(n, 0, str(folder / "a.pcap")))
    incomplete = conversation.ask(lambda n: Capture(n, 0, None))
    assert isinstance(incomplete, Denied)
    assert "it is a toy" in incomplete.reason
    status = conversation.ask(GetStatus)
    assert isinstance(status, FabricStatus)
    assert status.attached == 2
    conversation.ask(lambda n: Detach(n, (0,)))
    other.close()
    time.sleep(0.1)
    notes = conversation.notes()
    assert [note.rank for note in notes if isinstance(note, NodeAttached)] == [0, 1]
    assert [(note.rank, note.was_lost) for note in notes if isinstance(note, NodeDetached)] == [(0, False), (1, True)]
    applied = [note for note in notes if isinstance(note, Applied)]
    assert [(note.planned_s, note.applied_s) for note in applied] == [(0.1, 0.1)] * 2
    conversation.ask(Quit)
    conversation.close()
    one.close()


def _device(sockets: Path, rank: int) -> socket.socket:
    """A node's end of what is a device to the toy."""
    mine, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    mine.settimeout(5.0)
    with theirs:
        hand_over(theirs.fileno(), node_socket(sockets, rank))
    return mine


def test_a_data_plane_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    config = configuration(pair(), tmp_path, tmp_path / "s", data_plane="none such")
    with pytest.raises(UsageProblem, match="no data plane `none such`"):
        Fabric(config)


def test_the_control_plane_knows_data_planes_by_their_list_alone() -> None:
    folder = Path(testbed.engines.fabric.__file__).parent
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text())
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        implementations = [name for name in names if "python_plane" in name or "native_plane" in name]
        assert path.name == "planes.py" or not implementations, path.name


def test_the_packet_model_is_reached_through_its_package_alone() -> None:
    """No other module sees links, trains or routes of its own making."""
    package = Path(testbed.__file__).parent
    for path in package.rglob("*.py"):
        if path.is_relative_to(package / "network" / "packets"):
            continue
        tree = ast.parse(path.read_text())
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not [name for name in names if name.startswith("testbed.network.packets.")], path


# -- every data plane --------------------------------------------------------------------------------------------------


def test_it_carries_frames_until_a_time(make: MakePlane) -> None:
    plane = make(pair("20ms"))
    with attached(plane, 0) as one, attached(plane, 1) as other:
        one.send(super_segment(10_000))
        began_s = time.monotonic()
        assert plane.run(began_s + 0.01) == []
        assert began_s + 0.01 <= time.monotonic() < began_s + 0.02
        assert plane.figures().held_frames == 1
        plane.run(began_s + 0.03)
        assert other.recv(70_000) == super_segment(10_000)
        (first, second) = plane.figures().ports
        assert (first.frames_in, second.packets_out) == (1, 7)
        assert plane.figures().delays.packets == 7
        plane.restart_delays()
        assert plane.figures().delays.packets == 0


def test_it_comes_back_when_the_control_plane_has_something_to_do(make: MakePlane) -> None:
    wakeup = os.eventfd(1)
    plane = make(pair(), wakeup=wakeup)
    began_s = time.monotonic()
    assert plane.run(began_s + 2.0) == []
    assert time.monotonic() < began_s + 1.0
    os.close(wakeup)


def test_it_tells_which_device_is_lost(make: MakePlane) -> None:
    plane = make(pair())
    reading, writing = os.pipe()
    os.close(reading)
    plane.attach(1, writing)  # that cannot be read
    began_s = time.monotonic()
    (lost,) = plane.run(began_s + 2.0)
    assert time.monotonic() < began_s + 1.0
    assert (lost.port, lost.why) == (1, "its device cannot be read: Bad file descriptor")
    assert not plane.detach(1)


@pytest.mark.parametrize("name", sorted(planes.PLANES))
def test_what_is_no_device_is_refused_and_the_one_before_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = planes.PLANES[name](setup(pair()))
    reading, writing = os.pipe()
    with monkeypatch.context() as patched:
        patched.setattr(f"testbed.engines.fabric.{name}_plane.plane.make_fit", lambda _: None)
        assert not plane.attach(0, reading)
    with pytest.raises(NotATun):
        plane.attach(0, writing)
    assert plane.figures().ports[0].is_attached
    plane.close()


@pytest.mark.processes
@pytest.mark.parametrize("name", sorted(planes.PLANES))
def test_what_is_closed_can_be_closed_again(name: str) -> None:
    """Memory that is freed twice ends a process."""
    script = f"""
from testbed.engines.fabric.planes import PLANES
from tests.engines.planes import setup
from tests.engines.world import pair
plane = PLANES[{name!r}](setup(pair()))
plane.close()
plane.close()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_change_is_at_its_time_and_never_before_what_was_carried(make: MakePlane) -> None:
    plane = make(pair("20ms"))
    network = setup(pair("40ms")).network
    began_s = time.monotonic()
    plane.run(began_s + 0.005)
    assert plane.change(began_s + 0.005, network) == pytest.approx(began_s + 0.005, abs=1e-9)
    assert plane.cut(began_s + 0.006, [1]) == pytest.approx(began_s + 0.006, abs=1e-9)
    assert plane.uncut(began_s, [1]) == pytest.approx(began_s + 0.006, abs=1e-9), "it has been carried up to there"


LINE = links(
    2,
    [("n.0", "x", {"latency": "10ms", "rate": "12Mbps"}), ("x", "n.1", {"latency": "20ms", "rate": "12Mbps"})],
    bridges=("x",),
)


def test_what_another_host_has_begun_goes_on_from_its_link(make: MakePlane) -> None:
    plane = make(LINE)
    network = setup(LINE).network
    (link,) = np.flatnonzero(network.dest == 1).tolist()
    data = super_segment(3 * 1448)
    with attached(plane, 1) as other:
        now_s = time.monotonic()
        assert plane.take(UnderWay(0, data, link, (0, 2), (now_s + 0.001, now_s - 5.0)))
        assert not plane.take(UnderWay(0, b"noise", link, (0,), (now_s,)))
        assert not plane.take(UnderWay(0, data, link, (3,), (now_s,))), "it has three packets"
        (wrong,) = np.flatnonzero(network.origin == 1).tolist()
        assert not plane.take(UnderWay(0, data, wrong, (0,), (now_s,))), "its way does not lead there"
        assert plane.figures().held_frames == 1
        plane.run(now_s + 0.04)
        assert len(other.recv(70_000)) == len(other.recv(70_000)) == len(super_segment(1448))
    counters = plane.counters()
    assert (counters.in_flight, counters.no_path) == (0, 1)
    assert plane.figures().held_frames == 0
    assert plane.figures().ports[0].unfit == {"malformed": 2}


@pytest.mark.parametrize(
    ("origin", "pieces", "later_s"),
    [
        (0, (0, 0), (0.0, 0.0)),
        (0, (0, 3), (0.0, 0.0)),
        (0, (-1, 0), (0.0, 0.0)),
        (0, (0, 2**32), (0.0, 0.0)),
        (0, (0, 1, 2), (0.0, 0.0)),
        (0, (0,), (0.0, 0.0)),
        (0, (0, 1), (0.0, math.inf)),
        (0, (0, 1), (math.nan, 0.0)),
        (2, (0, 1), (0.0, 0.0)),
        (-1, (0, 1), (0.0, 0.0)),
    ],
)
def test_what_another_host_cannot_mean_is_not_taken(
    make: MakePlane, origin: int, pieces: tuple[int, ...], later_s: tuple[float, ...]
) -> None:
    plane = make(LINE)
    (link,) = np.flatnonzero(setup(LINE).network.dest == 1).tolist()
    now_s = time.monotonic()
    times_s = [now_s + each for each in later_s]
    assert not plane.take(UnderWay(origin, super_segment(3 * 1448), link, pieces, times_s))
    figures = plane.figures()
    assert figures.held_frames == 0
    assert [port.unfit for port in figures.ports] == [{"malformed": 1} if origin == 0 else {}, {}]


def test_frames_from_other_hosts_count_as_on_their_way_and_end_where_there_is_no_room(make: MakePlane) -> None:
    plane = make(LINE, most_held_of_one_bytes=2 * held_bytes(4406, 3))
    (link,) = np.flatnonzero(setup(LINE).network.dest == 1).tolist()
    frame = UnderWay(0, super_segment(3 * 1448), link, (0, 1, 2), [time.monotonic() + 5.0] * 3)
    assert [plane.take(frame) for _ in range(4)] == [True, True, True, False]
    assert plane.figures().ports[0].unfit == {"backlog": 3}


def test_a_node_that_writes_much_leaves_others_their_turn(make: MakePlane) -> None:
    plane = make(
        links(3, [(f"n.{rank}", "x", {"latency": "0ms", "rate": "unlimited"}) for rank in range(3)], bridges=("x",))
    )
    dest = socket.inet_aton(address(2))
    with attached(plane, 0) as much, attached(plane, 1) as little, attached(plane, 2) as reader:
        for number in range(60):
            much.send(vnet() + ip(bytes([number]), 17, socket.inet_aton(address(0)), dest))
        little.send(vnet() + ip(b"mine", 17, socket.inet_aton(address(1)), dest))
        while plane.figures().ports[2].packets_out < 61:
            plane.run(time.monotonic() + 0.01)
        order = [reader.recv(2000)[10 + 20 :] for _ in range(61)]
    assert order.index(b"mine") <= 16, "so many frames of one are read at once"


@pytest.mark.parametrize(
    ("late_s", "far", "late_and_far"), [(0.02, 1000.0, (7, 0)), (0.02, 1.5, (7, 7)), (60.0, 2.0, (0, 0))]
)
def test_a_packet_is_late_from_the_limit_on(
    make: MakePlane, late_s: float, far: float, late_and_far: tuple[int, int]
) -> None:
    plane = make(pair("20ms"), limits=limits(1.0)._replace(late_s=late_s, far=far))
    with attached(plane, 0) as one, attached(plane, 1):
        one.send(super_segment(10_000))
        plane.run(time.monotonic() + 0.01)
        time.sleep(0.06)
        plane.run(time.monotonic() + 0.001)
    delays = plane.figures().delays
    assert (delays.packets, delays.late, delays.far) == (7, *late_and_far)
