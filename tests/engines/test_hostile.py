"""Nodes that do what no learner would, and what becomes of the others."""

from __future__ import annotations

import fcntl
import os
import socket
import statistics
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from testbed.engines.attach import NodeNetwork
from testbed.engines.denied import NetworkDenied
from testbed.engines.device import hand_over, make_device
from testbed.engines.fabric.requests import FabricLost
from testbed.engines.fabric.sockets import node_socket
from testbed.engines.namespace import TcpSettings, enter_namespace
from testbed.engines.steps import Step
from testbed.engines.tun import open_device
from testbed.plan.addresses import address
from testbed.protocol.fabric import (
    FROM_FABRIC_TO_NODE,
    Attach,
    GetStatus,
    NodeAttached,
    NodeDetached,
    NodeRefused,
    Refused,
)
from testbed.protocol.message import MAX_MESSAGE_BYTES, encode
from tests.engines.test_real_network import datagrams, datagrams_received
from tests.engines.world import World, echo_times, links, needs_network, pair, world

pytestmark = needs_network
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x2, 0x1000
_SIOCSIFFLAGS = 0x8914
_ETH_P_IP, _SOL_PACKET, _PACKET_VNET_HDR = 0x0800, 263, 15


def say(made: World, rank: int, data: bytes, *descriptors: int) -> str:
    """What the fabric answers a node that says this: why it is refused, or nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as node:
        node.settimeout(5)
        node.connect(str(node_socket(Path(made.config.sockets), rank)))
        socket.send_fds(node, [data], descriptors)
        answer = node.recv(MAX_MESSAGE_BYTES)
    if not answer:
        return ""
    read = FROM_FABRIC_TO_NODE.read(answer)
    assert isinstance(read, Refused)
    return read.reason


def test_only_a_tun_of_the_right_kind_is_taken(tmp_path: Path) -> None:
    with world(pair(), tmp_path) as made:
        hello = encode(Attach())
        reading, writing = os.pipe()
        unborn = open_device()
        tap = in_namespace_of_its_own(tap_device)
        assert "not /dev/net/tun" in say(made, 0, hello, reading)
        with (tmp_path / "file").open("wb") as file:
            assert "not /dev/net/tun" in say(made, 0, hello, file.fileno())
        assert "no device" in say(made, 0, hello, unborn)
        assert "wrong kind" in say(made, 0, hello, tap)
        assert "one descriptor" in say(made, 0, hello)
        assert "one descriptor" in say(made, 0, hello, reading, writing)
        assert say(made, 0, b"\xc1noise", unborn)
        assert not say(made, 0, bytes(100_000))
        for each in (reading, writing, unborn, tap):
            os.close(each)
        assert made.status().attached == 0
        open_files = {each.name: os.readlink(each) for each in Path(f"/proc/{made.fabric.pid}/fd").iterdir()}
        assert not [name for name, file in open_files.items() if int(name) > 2 and file.startswith(("pipe", "/dev"))]


def test_what_is_no_device_costs_its_node_nothing_and_is_told_once(tmp_path: Path) -> None:
    with world(pair(), tmp_path) as made:
        made.node(0)
        reading, writing = os.pipe()
        for descriptor in (reading, writing):
            assert "not /dev/net/tun" in say(made, 0, encode(Attach()), descriptor)
            os.close(descriptor)
        say(made, 0, b"noise")
        assert made.status().attached == 1
        notes = made.control.notes()
        assert [note for note in notes if isinstance(note, NodeDetached)] == []
        assert [note for note in notes if isinstance(note, NodeRefused)] == [
            NodeRefused(0, "the descriptor is not /dev/net/tun", 0.0)
        ]


def test_calls_without_end_cost_one_connection(tmp_path: Path) -> None:
    with world(pair(), tmp_path) as made:
        callers = []
        for _ in range(200):
            caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            caller.connect(str(node_socket(Path(made.config.sockets), 0)))
            callers.append(caller)
        assert made.status().attached == 0
        assert len(list(Path(f"/proc/{made.fabric.pid}/fd").iterdir())) < 30
        for caller in callers:
            caller.close()
        made.node(0)
        assert made.status().attached == 1


def test_whoever_speaks_nonsense_to_the_control_socket_is_hung_up_on(tmp_path: Path) -> None:
    with world(pair(), tmp_path) as made:
        for noise in (b"noise", bytes(100_000), b"\x81\xa4type\xa5begin"):
            stranger = made.fabric.connect()
            stranger._send(noise)
            with pytest.raises(FabricLost):
                stranger._receive()
        assert made.status().attached == 0


def test_a_device_without_o_nonblock_and_with_another_reader_stops_nobody(tmp_path: Path) -> None:
    with world(links(3, EVERYBODY, ("hub",)), tmp_path) as made:
        nosy = Hostile()
        hostile = made.node(0, nosy.reads_along, join=nosy.join)
        one, _ = made.node(1, echo_times(address(2), 100, 0.005)), made.node(2)
        hostile.start()
        one.start()
        times_ms = one.result()
        assert hostile.result() > 100
    assert len(times_ms) == 100
    assert 20.0 <= statistics.median(times_ms) <= 24.0


def test_a_flood_does_not_starve_the_others(tmp_path: Path) -> None:
    with world(links(3, EVERYBODY, ("hub",)), tmp_path) as made:
        flood = made.node(0, floods(address(2), 2.0))
        one, _ = made.node(1, echo_times(address(2), 60, 0.005)), made.node(2)
        flood.start()
        time.sleep(0.3)
        one.start()
        times_ms = one.result()
        assert flood.result() > 10_000
    assert len(times_ms) == 60
    assert 20.0 <= statistics.median(times_ms) <= 30.0


def test_what_a_dead_device_does_not_take_is_counted(tmp_path: Path) -> None:
    with world(pair("1ms"), tmp_path) as made:
        silent = Hostile()
        dead = made.node(1, silent.takes_its_device_down, join=silent.join)
        dead.start()
        assert dead.result()
        one = made.node(0, datagrams(address(1), 5, 1, 0.01))
        one.start()
        one.result()
        time.sleep(0.1)
        assert made.status().dropped == {"write EIO": 5}


def test_a_forged_source_is_dropped_and_counted(tmp_path: Path) -> None:
    with world(pair("1ms"), tmp_path) as made:
        liar = made.node(0, datagrams(address(1), 7, 1, 0.0), join=Hostile(called=address(5)).join)
        victim = made.node(1, datagrams_received(1))
        victim.start()
        liar.start()
        liar.result()
        assert victim.result() == 0
        health = made.finish()
    assert health.nodes[0].unfit == {"foreign_source": 7}
    assert health.nodes[1].packets_out == 0


def test_a_step_that_fails_is_named() -> None:
    with pytest.raises(NetworkDenied) as denied:
        hand_over(0, Path("/nowhere"))
    assert denied.value.step is Step.HAND_OVER
    assert in_namespace_of_its_own(congestion_control_of_nowhere) == 0


def test_frames_that_lie_about_themselves_stop_nobody(tmp_path: Path) -> None:
    with world(links(3, EVERYBODY, ("hub",)), tmp_path) as made:
        liar = made.node(0, writes_lies(3000), join=Hostile().join)
        one, _ = made.node(1, echo_times(address(2), 60, 0.005)), made.node(2)
        liar.start()
        assert liar.result() > 300
        one.start()
        assert len(one.result()) == 60
        health = made.finish()
    lied = health.nodes[0]
    assert sum(lied.unfit.values()) > 100
    assert {"malformed", "foreign_source", "unknown_destination"} <= lied.unfit.keys()
    assert not any(node.unfit for node in health.nodes[1:])


def test_whoever_takes_anothers_place_cannot_use_its_own_address_there_and_is_told_of(tmp_path: Path) -> None:
    with world(links(3, EVERYBODY, ("hub",)), tmp_path) as made:
        made.node(1)
        made.node(2)
        thief = made.node(1, datagrams(address(2), 5, 1, 0.0), join=Hostile(called=address(0)).join)
        thief.start()
        thief.result()
        time.sleep(0.1)
        assert NodeAttached(1, again=True) in made.control.notes()
        health = made.finish()
    assert health.nodes[1].unfit == {"foreign_source": 5}
    assert health.nodes[2].packets_out == 0


# -- what nodes do -----------------------------------------------------------------------------------------------------

EVERYBODY = [(f"n.{rank}", "hub", {"latency": "5ms", "rate": "unlimited"}) for rank in range(3)]


def in_namespace_of_its_own(work: Callable[[], int]) -> int:
    """A descriptor that a process in another namespace made; 0 for none."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        try:
            enter_namespace(TcpSettings())
            descriptor = work()
            socket.send_fds(theirs, [b"ok"], [descriptor] if descriptor else [])
        finally:
            os._exit(0)
    theirs.close()
    with mine:
        data, descriptors, _, _ = socket.recv_fds(mine, 16, 1)
    os.waitpid(child, 0)
    assert data == b"ok"
    return descriptors[0] if descriptors else 0


def tap_device() -> int:
    descriptor = open_device()
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", b"eth0", _IFF_TAP | _IFF_NO_PI))
    return descriptor


def congestion_control_of_nowhere() -> int:
    try:
        make_device(NodeNetwork(address(0), TcpSettings(congestion="nowhere")).device)
    except NetworkDenied as denied:
        assert denied.step is Step.ROUTE
        assert "modprobe" in denied.hint
        return 0
    raise AssertionError


class Hostile:
    """A node that keeps its device and its privileges, and is called what it likes."""

    def __init__(self, called: str | None = None) -> None:
        self._called = called
        self.descriptor = -1

    def join(self, network: NodeNetwork, fabric: Path) -> None:
        enter_namespace(network.tcp)
        self.descriptor = make_device(replace(network, address=self._called or network.address).device)
        hand_over(self.descriptor, fabric)

    def reads_along(self) -> int:
        """Reads its own packets before the fabric does, and makes every read and write of the device wait."""
        until_s, count = time.monotonic() + 2.0, 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while time.monotonic() < until_s:
                os.set_blocking(self.descriptor, True)
                sender.sendto(b"x", (address(1), 5))
                try:
                    count += bool(os.preadv(self.descriptor, [bytearray(2000)], -1, os.RWF_NOWAIT))
                except BlockingIOError:
                    continue
        return count

    def takes_its_device_down(self) -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"eth0", 0))
        return True


def writes_lies(count: int) -> Callable[[], int]:
    """Frames past the kernel's TCP/IP, with headers that do not fit them; how many the kernel let through."""

    def work() -> int:
        draw, through = Random(7), 0  # noqa: S311
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_IP)) as raw:
            raw.bind(("eth0", _ETH_P_IP))
            raw.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
            for _ in range(count):
                size = draw.choice([0, 1, 19, 20, 28, 40, 100, 1400, 1500])
                length = draw.choice([size, size, size, 0, 20, 65_535])
                source, dest = (
                    bytes(map(int, each.split(".")))
                    for each in (draw.choice([address(0), address(1)]), draw.choice([address(1), "198.18.9.9"]))
                )
                protocol, version = draw.choice([1, 6, 17, 255]), draw.choice([0x45, 0x45, 0x4F, 0x41, 0x60])
                header = struct.pack("!BBHHHBBH4s4s", version, 0, length, 1, 0, 64, protocol, 0, source, dest)
                lie = struct.pack(
                    "=BBHHHH",
                    draw.choice([0, 1]),
                    draw.choice([0, 0, 1, 3, 0x81]),
                    *(draw.choice([0, 1, 20, 40, 60_000]) for _ in range(2)),
                    *(draw.choice([0, 6, 16, 20, 60_000]) for _ in range(2)),
                )
                try:
                    raw.send(lie + (header + draw.randbytes(1500))[:size])
                    through += 1
                except OSError:
                    continue  # this kernel looks itself
        return through

    return work


def floods(dest: str, seconds: float) -> Callable[[], int]:
    def work() -> int:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            until_s, count = time.monotonic() + seconds, 0
            while time.monotonic() < until_s:
                for _ in range(50):
                    sender.sendto(b"flood", (dest, 5))
                count += 50
            return count

    return work


def test_the_fabric_answers_all_the_while(tmp_path: Path) -> None:
    with world(pair(), tmp_path) as made:
        answers = [made.control.ask(GetStatus) for _ in range(50)]
        assert [answer.number for answer in answers] == [answers[0].number + place for place in range(50)]
