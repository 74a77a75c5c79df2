"""A small emulated network with real namespaces: a fabric, and processes that are its nodes."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import struct
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from testbed.engines.attach import NodeNetwork, join_network
from testbed.engines.fabric.config import SCHEMA, FabricConfig, FabricNode, wanted_plane
from testbed.engines.fabric.health import Health
from testbed.engines.fabric.sockets import node_socket
from testbed.engines.fabric.start import FabricConversation, FabricHandle, start_fabric
from testbed.engines.namespace import TcpSettings
from testbed.engines.privileges import User
from testbed.plan.addresses import address
from testbed.plan.model import as_json
from testbed.protocol.fabric import Begin, FabricStatus, GetStatus, Watch
from testbed.topologies.load import load_bytes
from testbed.topologies.source import Form

Work = Callable[[], object]
Join = Callable[[NodeNetwork, Path], None]
NOBODY = 65_534
TUN = "/dev/net/tun"
_PR_SET_DUMPABLE = 4

_TCP = TcpSettings()
needs_network = pytest.mark.needs_network


def need_tun_for_all() -> None:
    """Before root becomes an ordinary user: skips where those may not open what every network needs."""
    if os.stat(TUN).st_mode & 0o006 != 0o006:
        pytest.skip(f"{TUN} is not for everybody here, as udev would make it: chmod 666 {TUN}")


class Child:
    """A node's process: it has joined the network when this is made, and works when told to."""

    def __init__(self, rank: int, sockets: Path, work: Work, join: Join, user: User | None, tcp: TcpSettings) -> None:
        self.rank = rank
        self._mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._mine.settimeout(60)
        self.pid = os.fork()
        if self.pid == 0:
            self._mine.close()
            _live(theirs, partial(join, NodeNetwork(address(rank), tcp), node_socket(sockets, rank)), work, user)
        theirs.close()
        self._expect("joined")

    def start(self) -> None:
        self._mine.send(b"go")

    def start_listening(self) -> None:
        """Its work waits for datagrams, and has a socket for them when this returns."""
        self.start()
        until_s = time.monotonic() + 30
        while len(Path(f"/proc/{self.pid}/net/udp").read_text().splitlines()) < 2:
            assert time.monotonic() < until_s, f"node {self.rank} has no socket for datagrams"
            time.sleep(0.01)

    def result(self) -> Any:
        """What the work gave."""
        return self._expect("result")

    def end(self) -> None:
        with self._mine:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def _expect(self, what: str) -> Any:
        data = self._mine.recv(1 << 20)
        assert data, f"node {self.rank} ended instead of {what}"
        told = json.loads(data)
        assert what in told, told.get("problem")
        return told[what]


def _live(parent: socket.socket, join: Callable[[], None], work: Work, user: User | None) -> None:
    try:
        signal.alarm(120)
        if user is not None:
            os.setgroups([])
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, user.uid)
            # As for a program that an ordinary user starts; changing users takes /proc/self away.
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        join()
        parent.send(json.dumps({"joined": True}).encode())
        parent.recv(16)
        parent.send(json.dumps({"result": work()}).encode())
        signal.pause()
    except BaseException:
        parent.send(json.dumps({"problem": traceback.format_exc()}).encode())
    finally:
        os._exit(0)


class World:
    """A fabric and its nodes."""

    def __init__(self, config: FabricConfig, folder: Path, fabric: FabricHandle) -> None:
        self.config = config
        self.folder = folder
        self.fabric = fabric
        self.control: FabricConversation = fabric.connect()
        self.control.ask(lambda n: Watch(n, lead=True))
        self.children: list[Child] = []

    def node(
        self,
        rank: int,
        work: Work = lambda: None,
        *,
        join: Join = join_network,
        user: User | None = None,
        tcp: TcpSettings = _TCP,
    ) -> Child:
        child = Child(rank, Path(self.config.sockets), work, join, user, tcp)
        self.children.append(child)
        return child

    def begin(self) -> float:
        t0_s = time.monotonic()
        self.control.ask(lambda n: Begin(n, t0_s))
        return t0_s

    def status(self) -> FabricStatus:
        status = self.control.ask(GetStatus)
        assert isinstance(status, FabricStatus)
        return status

    def finish(self) -> Health:
        """The fabric ends; what it wrote last."""
        self.fabric.stop()
        return msgspec.json.decode((Path(self.config.engine) / "health.json").read_bytes(), type=Health)

    def lines(self) -> list[dict[str, Any]]:
        text = (Path(self.config.engine) / "links.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


def configuration(topology: str, folder: Path, sockets: Path, **more: Any) -> FabricConfig:
    loaded = load_bytes(topology.encode(), Form.YAML, "test").require()
    nodes = tuple(FabricNode(node.name, address(node.rank)) for node in loaded.nodes)
    engine = str(folder / "engine")
    more = {"data_plane": wanted_plane(), **more}
    return FabricConfig(SCHEMA, "test", dict(as_json(loaded)), 1, nodes, str(sockets), engine, **more)


@contextmanager
def world(topology: str, folder: Path, **more: Any) -> Iterator[World]:
    """Everything in it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="testbed-") as sockets:
        os.chmod(sockets, 0o755)  # noqa: S103 - nodes of another user find their sockets
        config = configuration(topology, folder, Path(sockets), **more)
        fabric = start_fabric(config, folder)
        made = World(config, folder, fabric)
        try:
            yield made
        finally:
            for child in made.children:
                child.end()
            fabric.stop()


def pair(latency: str = "10ms", rate: str = "unlimited", **more: str) -> str:
    """Two nodes and a link."""
    return links(2, [("n.0", "n.1", {"latency": latency, "rate": rate, **more})])


def links(count: int, ends: list[tuple[str, str, dict[str, str]]], bridges: tuple[str, ...] = (), **more: Any) -> str:
    document = {
        "services": {"n": {"replicas": count}},
        "bridges": list(bridges),
        "links": [{"from": one, "to": other, **properties} for one, other, properties in ends],
        **more,
    }
    return yaml.safe_dump(document, sort_keys=False)


# -- what nodes do -----------------------------------------------------------------------------------------------------


def echo_times(dest: str, count: int, every_s: float) -> Callable[[], list[float]]:
    """ICMP echo: round-trip times in milliseconds; a lost one is left out."""

    def work() -> list[float]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as icmp:
            icmp.settimeout(1.0)
            found = []
            for number in range(count):
                sent_s = time.monotonic()
                icmp.sendto(struct.pack("!BBHHH", 8, 0, 0, 0, number) + bytes(48), (dest, 0))
                try:
                    while struct.unpack_from("!H", icmp.recv(2048), 6)[0] != number:
                        pass
                except TimeoutError:
                    continue
                found.append((time.monotonic() - sent_s) * 1e3)
                time.sleep(every_s)
            return found

    return work


PORT = 5001


def tcp_receiver(seconds: float, warm_up_s: float = 1.0, port: int = PORT) -> Callable[[], float]:
    """Bits per second of one connection, after its beginning."""

    def work() -> float:
        with socket.create_server(("0.0.0.0", port)) as listener:  # noqa: S104 - in a namespace of its own
            connection, _ = listener.accept()
            with connection:
                return _rate_bps(connection, seconds, warm_up_s)

    return work


def _rate_bps(connection: socket.socket, seconds: float, warm_up_s: float) -> float:
    buffer = bytearray(1 << 20)
    begun_s = time.monotonic()
    received, first_s = 0, 0.0
    while True:
        size = connection.recv_into(buffer)
        now_s = time.monotonic()
        if first_s:
            received += size
        elif now_s - begun_s >= warm_up_s:
            first_s = now_s
        if not size or now_s - begun_s >= warm_up_s + seconds:
            return received * 8 / (now_s - first_s)


def tcp_sender(dest: str, seconds: float, port: int = PORT) -> Callable[[], str]:
    """Sends as fast as it can; gives the congestion control that the kernel used."""

    def work() -> str:
        connection = connect(dest, port)
        with connection:
            used = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
            until_s = time.monotonic() + seconds
            block = bytes(1 << 18)
            try:
                while time.monotonic() < until_s:
                    connection.sendall(block)
            except OSError:
                pass
            return used

    return work


def connect(dest: str, port: int = PORT) -> socket.socket:
    """To a listener that may not be there yet."""
    for _ in range(50):
        try:
            return socket.create_connection((dest, port), timeout=30)
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise TimeoutError(dest)
