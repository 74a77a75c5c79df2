"""Nodes whose traffic is made by a program in C, and what carries it: the fabric, or a bare forwarder as its yardstick.

Takes a topology; starts a process for every node and one carrier, and leaves none behind. A node has a network
namespace and a TUN device, made as those of a run's nodes; only who has the device's other end differs. Traffic is
`traffic.c`, the yardstick `bare_forwarder.c`; both are compiled when a bench starts.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec
from process_figures import cpu_s

from testbed.engines.device import NodeDevice, hand_over, make_device
from testbed.engines.fabric.health import Health
from testbed.engines.fabric.reports import HEALTH
from testbed.engines.fabric.start import start_fabric
from testbed.engines.kernel import be_quick, raise_open_file_limit
from testbed.engines.namespace import TcpSettings, enter_namespace
from testbed.engines.tun import DEVICE
from testbed.parent import die_with_parent
from testbed.plan.addresses import address
from testbed.protocol.fabric import Begin, Watch
from testbed.topologies.model import Topology
from testbed.verify.prepare import config_for

BARE = "bare"
"""The carrier that is the yardstick; the others are data planes."""
COMPILER = os.environ.get("CC", "cc")
_SOURCES = Path(__file__).parent
_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror")
_PATIENCE_S = 60.0
_MOST_BYTES = 1 << 16
_HEADSTART_S = 0.5
"""From the order to the first packet: all programs have started by then."""
GiveDevice = Callable[[int, int], None]
"""Takes a node's rank and the descriptor of its device, in the node's process."""


def compiled(name: str, folder: Path) -> Path:
    """The program made from the C file of that name beside this one."""
    made = folder / name
    subprocess.run([COMPILER, *_FLAGS, "-o", str(made), str(_SOURCES / f"{name}.c")], check=True)
    return made


class Node:
    """A process in its own network, which becomes a program when told to."""

    def __init__(self, rank: int, tcp: TcpSettings, give: GiveDevice) -> None:
        self.rank = rank
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(_PATIENCE_S)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _live(theirs, partial(_join, rank, tcp, give), parent)
        theirs.close()

    def wait_until_joined(self) -> None:
        said = self.channel.recv(_MOST_BYTES)
        if said != b"joined":
            raise SystemExit(f"node {self.rank} has no network: {said.decode()}")

    def become(self, words: Sequence[str | Path], cores: frozenset[int]) -> None:
        """From now on it is this program, on these cores."""
        os.sched_setaffinity(self.pid, cores)
        self.channel.send(json.dumps([*map(str, words)]).encode())

    def result(self) -> int:
        """The number that its program prints when it ends."""
        said = self.channel.recv(_MOST_BYTES).decode().strip()
        if not said.isdecimal():
            raise SystemExit(f"the traffic of node {self.rank} has failed: {said}")
        return int(said)

    def frames(self) -> DeviceFrames:
        """What its device has counted so far."""
        for line in Path(f"/proc/{self.pid}/net/dev").read_text().splitlines():
            name, _, counts = line.partition(":")
            if name.strip() == DEVICE:
                numbers = [*map(int, counts.split())]
                return DeviceFrames(sent=numbers[9], lost=numbers[11], arrived=numbers[1])
        raise SystemExit(f"node {self.rank} has no device any more")

    def end(self) -> None:
        with self.channel:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@dataclass(frozen=True)
class DeviceFrames:
    """Counts of one device or of several; a super-segment is one frame."""

    sent: int = 0
    """Read by the carrier, or waiting for it."""
    lost: int = 0
    """By the sender's device, since its queue was full."""
    arrived: int = 0


def _join(rank: int, tcp: TcpSettings, give: GiveDevice) -> None:
    enter_namespace(tcp)
    descriptor = make_device(NodeDevice(address(rank), tcp.congestion, tcp.time_scale))
    give(rank, descriptor)
    os.close(descriptor)


def _live(channel: socket.socket, join: Callable[[], None], parent: int) -> NoReturn:
    """Runs in the node's process until that is a program."""
    try:
        die_with_parent(parent)
        join()
        channel.send(b"joined")
        words = json.loads(channel.recv(_MOST_BYTES))
        os.dup2(channel.fileno(), 1)
        os.execv(words[0], words)  # noqa: S606 - compiled by this bench
    except BaseException:
        channel.send(traceback.format_exc()[-_MOST_BYTES // 2 :].encode())
    finally:
        os._exit(1)


@dataclass(frozen=True)
class Traffic:
    """What came of one window of traffic."""

    results: Mapping[int, int]
    """By rank: what the node's program has counted."""
    frames: DeviceFrames
    """Of all devices, in the window."""
    carrier_s: float
    """The carrier's processor time in the window."""
    seconds: float
    """The window's length."""
    health: Health | None
    """The fabric's last word on delays since the window began; None of a bare forwarder."""


@dataclass(frozen=True)
class Carried:
    """A network that is up: its nodes, and the process that carries their packets."""

    nodes: Sequence[Node]
    carrier: int
    """Its process id."""
    begin: Callable[[float], None]
    """The carrier's figures of delays count from that time on."""
    health: Callable[[], Health | None]
    """The fabric's, of the last full second."""

    def run(self, program: Path, roles: Sequence[Role], settle_s: float, window_s: float, *, apart: bool) -> Traffic:
        """Every node plays its role; `apart`: the carrier has a core of its own."""
        carrier_cores, traffic_cores = _cores(apart=apart)
        _pin(self.carrier, carrier_cores)
        start_s = time.monotonic() + _HEADSTART_S
        from_s = start_s + settle_s
        until_s = from_s + window_s
        for node, role in zip(self.nodes, roles, strict=True):
            node.become([program, *role(start_s, from_s, until_s)], traffic_cores)
        _sleep_until(from_s)
        self.begin(from_s)
        before, before_s, began_s = self._frames(), cpu_s(self.carrier), time.monotonic()
        _sleep_until(until_s)
        after, after_s, ended_s = self._frames(), cpu_s(self.carrier), time.monotonic()
        frames = DeviceFrames(after.sent - before.sent, after.lost - before.lost, after.arrived - before.arrived)
        results = {node.rank: node.result() for node in self.nodes}
        return Traffic(results, frames, after_s - before_s, ended_s - began_s, self.health())

    def _frames(self) -> DeviceFrames:
        found = [node.frames() for node in self.nodes]
        return DeviceFrames(
            sum(each.sent for each in found), sum(each.lost for each in found), sum(each.arrived for each in found)
        )


Role = Callable[[float, float, float], Sequence[str]]
"""Takes when traffic starts, and from when until when it counts; gives the words for `traffic.c`."""


def _cores(*, apart: bool) -> tuple[frozenset[int], frozenset[int]]:
    """The carrier's cores and those of the traffic."""
    first, *others = sorted(os.sched_getaffinity(0))
    if not apart or not others:
        return frozenset([first, *others]), frozenset([first, *others])
    return frozenset([first]), frozenset(others)


def _pin(pid: int, cores: frozenset[int]) -> None:
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cores)


def _sleep_until(monotonic_s: float) -> None:
    time.sleep(max(0.0, monotonic_s - time.monotonic()))


@contextmanager
def carried(carrier: str, topology: Topology, tcp: TcpSettings, folder: Path) -> Iterator[Carried]:
    """The topology's nodes, with the carrier of that name between them; `folder` has a short path and is empty."""
    raise_open_file_limit()
    count = len(topology.nodes)
    if carrier == BARE:
        with _bare(count, tcp, folder) as network:
            yield network
    else:
        with _fabric(carrier, topology, tcp, folder) as network:
            yield network


@contextmanager
def _joined(count: int, tcp: TcpSettings, give: GiveDevice) -> Iterator[list[Node]]:
    nodes: list[Node] = []
    try:
        nodes += (Node(rank, tcp, give) for rank in range(count))
        for node in nodes:
            node.wait_until_joined()
        yield nodes
    finally:
        for node in nodes:
            node.end()


@contextmanager
def _fabric(plane: str, topology: Topology, tcp: TcpSettings, folder: Path) -> Iterator[Carried]:
    config = msgspec.structs.replace(config_for(topology, 1, folder), data_plane=plane)
    fabric = start_fabric(config, folder)
    try:
        conversation = fabric.connect()
        conversation.ask(partial(Watch, lead=True))

        def begin(monotonic_s: float) -> None:
            conversation.ask(lambda number: Begin(number, monotonic_s))

        def health() -> Health:
            return msgspec.json.decode((Path(config.engine) / HEALTH).read_bytes(), type=Health)

        with _joined(
            len(config.nodes), tcp, lambda rank, descriptor: hand_over(descriptor, config.node_socket(rank))
        ) as nodes:
            yield Carried(nodes, fabric.pid, begin, health)
    finally:
        fabric.stop()


@contextmanager
def _bare(count: int, tcp: TcpSettings, folder: Path) -> Iterator[Carried]:
    """The program between two nodes."""
    if count != 2:
        raise ValueError(f"a bare forwarder is between two nodes, not {count}")
    program = compiled("bare_forwarder", folder)
    mine, theirs = zip(*(socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)), strict=True)

    def give(rank: int, descriptor: int) -> None:
        socket.send_fds(theirs[rank], [b"device"], [descriptor])

    with _joined(count, tcp, give) as nodes:
        devices = [socket.recv_fds(each, 16, 1)[1][0] for each in mine]
        for each in (*mine, *theirs):
            each.close()
        forwarder = subprocess.Popen(
            [str(program), *map(str, devices)], pass_fds=devices, start_new_session=True, preexec_fn=be_quick
        )
        for each in devices:
            os.close(each)
        try:
            yield Carried(nodes, forwarder.pid, lambda _at_s: None, lambda: None)
        finally:
            forwarder.kill()
            forwarder.wait()
