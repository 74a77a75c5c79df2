"""How long frames lay in a device before they were read: what is taken for it, beside what it was."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from testbed.engines.fabric.python_plane import intake as intake_module
from testbed.engines.fabric.python_plane.intake import LOOK_AFTER, LOOK_AT_ONCE, Intake
from testbed.engines.fabric.python_plane.plane import PythonPlane
from testbed.engines.fabric.python_plane.ports import UNSURE_S, Port, Ports
from tests.engines.planes import setup
from tests.engines.test_frames import super_segment
from tests.engines.world import pair

TURN_S = 50e-6
"""What a frame costs the fabric."""
READ_S = 1e-6


class Scene(Ports):
    """A fabric whose only work are the frames of one device, on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(1)
        self.port = self.ports[0]
        self.now_s = 1.0
        self.device: deque[float] = deque()
        """When each frame was written to it."""
        self.reads = 0
        self.order: list[float] = []
        """When those were written that left, as they left."""
        self.found: list[tuple[float, float]] = []
        """Of each frame how long it waited, and for how long it was taken to have."""
        self.intake = Intake(self)
        monkeypatch.setattr("testbed.engines.fabric.python_plane.intake.time.monotonic", lambda: self.now_s)

    def read(self, port: Port) -> bytes | None:
        assert port is self.port
        self.reads += 1
        self.now_s += READ_S
        return struct.pack("d", self.device.popleft()) if self.device else None

    def run(self, until_s: float, write: Callable[[float], None], turn_s: float = TURN_S) -> None:
        """Turn after turn, as `Waiting` has it; `write` gives the device what was written up to then."""
        turn = self.port.turn + 1
        before_s = self.now_s
        while self.now_s < until_s:
            turn += 1
            write(self.now_s)
            turn_s_at = self.now_s
            if self.device:
                if self.port.turn != turn - 1:
                    self.port.was_empty(before_s)
                self.port.turn = turn
            before_s = turn_s_at
            if (self.device or self.intake.holding) and (taken := self.intake.take(self.port, turn, turn_s_at)):
                written_s = struct.unpack("d", taken[0])[0]
                self.order.append(written_s)
                self.found.append((turn_s_at - written_s, turn_s_at - taken[1]))
            self.now_s += turn_s

    def means_s(self, last: int) -> tuple[float, float]:
        """What was, and what was taken for it, of the last frames."""
        found = self.found[-last:]
        return sum(one for one, _ in found) / len(found), sum(other for _, other in found) / len(found)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def steadily(scene: Scene, every_s: float) -> Callable[[float], None]:
    """One frame after the other."""
    times = [scene.now_s]

    def write(now_s: float) -> None:
        while times[0] <= now_s:
            scene.device.append(times[0])
            times[0] += every_s

    return write


def window(scene: Scene, frames: int) -> Callable[[float], None]:
    """As TCP: for each frame that was carried another one is written."""
    written = [0]

    def write(now_s: float) -> None:
        while written[0] - len(scene.found) < frames:
            scene.device.append(now_s)
            written[0] += 1

    return write


@pytest.mark.parametrize("every_s", [55e-6, 130e-6, 0.01])
def test_a_fabric_that_keeps_up_is_told_so(scene: Scene, every_s: float) -> None:
    scene.run(2.0, steadily(scene, every_s))
    assert len(scene.found) == pytest.approx(1.0 / every_s, rel=0.01)
    assert all(was <= taken + 1e-9 for was, taken in scene.found)
    assert all(taken <= was + UNSURE_S + 3 * TURN_S for was, taken in scene.found)
    assert scene.reads < 1.3 * len(scene.found), "looks cost little"


@pytest.mark.parametrize("frames", [100, 2000])
def test_what_stands_in_a_device_all_the_time_is_seen(scene: Scene, frames: int) -> None:
    """A window of TCP that nothing drops from: the device is never empty, and no frame later than the one before."""
    scene.run(4.0, window(scene, frames))
    assert max(was for was, _ in scene.found) > 0.9 * frames * TURN_S
    was, taken = scene.means_s(len(scene.found) // 2)
    assert was == pytest.approx(frames * TURN_S, rel=0.2)
    assert taken == pytest.approx(was, rel=0.15)
    assert max(taken for _, taken in scene.found) < 2 * frames * TURN_S


def test_what_grows_is_seen_to_grow(scene: Scene) -> None:
    """One frame in four too many."""
    scene.run(3.0, steadily(scene, 0.8 * TURN_S))
    was, taken = scene.means_s(len(scene.found))
    assert was / 2 < taken < 1.2 * was
    assert scene.found[-1][0] > 0.3


def test_a_burst_waits_for_its_own_frames(scene: Scene) -> None:
    """What was written at once has waited since then, the last of it for longest; and then all is well again."""
    burst_s = scene.now_s + 0.01

    def write(now_s: float) -> None:
        if scene.now_s >= burst_s and not scene.found and not scene.device:
            scene.device.extend([now_s] * 640)

    scene.run(1.5, write)
    assert len(scene.found) == 640
    assert scene.found[-1][0] > 640 * TURN_S
    assert all(was <= taken + 1e-9 <= was + 3 * TURN_S for was, taken in scene.found)
    assert not scene.intake.holding
    scene.device.append(scene.now_s)
    scene.run(scene.now_s + 0.001, lambda _: None)
    assert scene.found[-1][1] < 3 * TURN_S


def test_frames_leave_in_the_order_in_which_they_were_written(scene: Scene) -> None:
    scene.run(1.5, steadily(scene, 0.7 * TURN_S))
    assert len(scene.order) > 8000
    assert scene.order == sorted(scene.order)


def test_looks_are_rare_while_frames_wait_long(scene: Scene) -> None:
    """What is held grows cold: it may be no more than the share of frames that looks find."""
    held = 0
    write = window(scene, 1000)

    def counting(now_s: float) -> None:
        nonlocal held
        held += bool(scene.intake.holding)
        write(now_s)

    scene.run(4.0, counting)
    assert 0 < held < 1.5 / LOOK_AFTER * len(scene.found)


def test_a_device_that_is_gone_takes_what_was_held_along(scene: Scene) -> None:
    scene.device.extend([scene.now_s] * 50)
    scene.run(scene.now_s + 20 * TURN_S, lambda _: None)
    assert scene.intake.holding
    scene.intake.forget(0)
    assert not scene.intake.holding
    assert scene.intake._held_bytes == 0


def test_so_much_is_held_and_no_more(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of one node nor of all; what lies in the device then is read as the fabric gets to it."""
    most = 0
    write = window(scene, 1000)

    def watching(now_s: float) -> None:
        nonlocal most
        most = max(most, scene.intake._held_bytes // 8)
        write(now_s)

    monkeypatch.setattr(intake_module, "MOST_HELD", 100)
    scene.run(1.5, watching)
    assert most == 99, "one has left when the turn ends"
    most = 0
    monkeypatch.setattr(intake_module, "MOST_HELD", 10_000)
    monkeypatch.setattr(intake_module, "MOST_HELD_BYTES", 8 * 40)
    scene.run(2.5, watching)
    assert most == 39
    assert len(scene.found) > 25_000


def test_what_there_is_no_room_for_says_nothing_of_its_device(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes' frames together are too many: this node's are read one at a time, and have waited since before."""
    monkeypatch.setattr(intake_module, "MOST_HELD_BYTES", 0)
    since_s = scene.port.since_s = scene.now_s - 0.5
    scene.port.turn = 7
    scene.device.extend([scene.now_s - 0.4] * 3)
    taken = [scene.intake.take(scene.port, 7, scene.now_s) for _ in range(3)]
    assert [each[1] for each in taken if each] == [since_s] * 3
    assert scene.port.since_s == since_s


def test_a_device_that_breaks_in_the_middle_of_a_look_leaves_nothing_behind(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read from it is held, so that it can be forgotten."""
    read = scene.read

    def breaks(port: Port) -> bytes | None:
        if not scene.device:
            raise OSError(errno.EBADF, "gone")
        return read(port)

    monkeypatch.setattr(scene, "read", breaks)
    scene.port.turn = 7
    scene.device.extend([scene.now_s] * 3)
    with pytest.raises(OSError, match="gone"):
        scene.intake.take(scene.port, 7, scene.now_s)
    assert scene.intake.holding
    assert scene.intake._held_bytes == 3 * 8
    scene.intake.forget(0)
    assert not scene.intake.holding
    assert scene.intake._held_bytes == 0


def test_where_calls_cannot_say_so_a_look_asks_before_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last read of a look is of an empty device: one that waits is up to its node, which shares the open file."""
    ports = Ports(1)
    ports.calls_say_so = False
    readv = os.readv

    def only_what_is_there(descriptor: int, into: list[bytearray]) -> int:
        assert select.select([descriptor], [], [], 0)[0], "it would wait"
        return readv(descriptor, into)

    monkeypatch.setattr(os, "readv", only_what_is_there)
    theirs, ours = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs:
        port = ports.attach(0, ours.detach())
        port.turn = 7
        intake = Intake(ports)
        for number in range(3):
            theirs.send(bytes([number]))
        now_s = time.monotonic()
        assert [(intake.take(port, 7, now_s) or (b"", 0.0))[0] for _ in range(3)] == [b"\0", b"\1", b"\2"]
        assert port.since_s >= now_s, "seen empty all the same"
        ports.close()


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> Iterator[PythonPlane]:
    """Whose devices are sockets, and whose turns are made by hand."""
    monkeypatch.setattr("testbed.engines.fabric.python_plane.plane.make_fit", lambda _: None)
    made = PythonPlane(setup(pair()))
    yield made
    made.close()


def carried(plane: PythonPlane, turns: int) -> int:
    """How many frames are on their way after so many turns; nothing is written to nodes meanwhile."""
    for _ in range(turns):
        for port in plane._waiting.ready_ports(0.0, plane._intake.holding):
            plane._read(port)
    return plane.figures().held_frames


def test_a_node_with_another_device_sends_nothing_of_what_was_in_the_first(plane: PythonPlane) -> None:
    (theirs, first), (other, second) = (socket.socketpair(type=socket.SOCK_SEQPACKET) for _ in range(2))
    with theirs, other:
        assert not plane.attach(0, first.detach())
        assert carried(plane, 1) == 0
        time.sleep(2 * UNSURE_S)
        for _ in range(LOOK_AT_ONCE + 1):
            theirs.send(super_segment(1448))
        assert carried(plane, 2) == 2
        assert plane._intake.holding
        assert plane.attach(0, second.detach())
        assert carried(plane, LOOK_AT_ONCE) == 2
        other.send(super_segment(1448))
        assert carried(plane, LOOK_AT_ONCE) == 3


def test_what_is_due_is_written_after_so_many_frames_whether_looks_or_turns_read_them(
    plane: PythonPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [socket.socketpair(type=socket.SOCK_SEQPACKET) for _ in range(2)]
    for rank, (_, ours) in enumerate(pairs):
        plane.attach(rank, ours.detach())
    assert carried(plane, 1) == 0
    time.sleep(2 * UNSURE_S)
    for theirs, _ in pairs:
        for _ in range(LOOK_AT_ONCE):
            theirs.send(b"noise")
    read: list[int] = []

    def write(_: float) -> None:
        read.append(sum(port.frames_in for port in plane.figures().ports))

    monkeypatch.setattr("testbed.engines.fabric.python_plane.plane._READ_AT_ONCE", LOOK_AT_ONCE)
    monkeypatch.setattr(plane, "_write", write)
    while not read or read[-1] < 2 * LOOK_AT_ONCE:
        assert plane.run(0.0) == []
    assert read == [LOOK_AT_ONCE, 2 * LOOK_AT_ONCE]
    for theirs, _ in pairs:
        theirs.close()


def test_what_is_not_carried_is_not_among_the_frames_that_did_not_wait(plane: PythonPlane) -> None:
    """Else a node that floods makes a run valid, while others wait for its noise to be read."""
    theirs, ours = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs:
        plane.attach(0, ours.detach())
        assert carried(plane, 1) == 0
        for data in (b"noise", super_segment(1448), b"noise"):
            theirs.send(data)
        assert carried(plane, 3) == 1
    figures = plane.figures()
    assert (figures.delays.frames, figures.delays.waits.count, figures.delays.device_waits.count) == (1, 1, 1)
    assert figures.ports[0].unfit == {"malformed": 2}
