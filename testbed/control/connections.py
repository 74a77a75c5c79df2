"""Where nodes connect to control: which node each connection belongs to, and what it says.

Takes paths of sockets, gives messages with the ranks of their nodes; touches those sockets. The kernel tells which
process has connected, or only one node can reach the socket: what a node claims decides nothing. A process that
connects before the zygote has told of it waits until it is claimed. For use inside a running event loop.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from testbed.control.node_table import NodeProcess, NodeTable
from testbed.control.packets import Entrance, PacketLink
from testbed.control.token_bucket import RATE_PER_S, TokenBucket
from testbed.protocol.message import ProtocolError
from testbed.protocol.nodes import FROM_NODE, FromNode

_FLOOD = f"more than {RATE_PER_S:g} messages a second: they are read late"
_MOST_MALFORMED = 100
"""Messages of one life that cannot be read; then it is disconnected."""
_MOST = 4096
_PATIENCE_S = 60.0
"""A node's start is told within milliseconds, and within seconds on a machine that is far too busy."""


class Listener(Protocol):
    """What is told of nodes."""

    def connected(self, life: NodeProcess) -> None:
        """It can be spoken to."""

    def heard(self, rank: int, life: NodeProcess, message: FromNode) -> None: ...

    def noticed(self, rank: int, what: str, detail: str) -> None:
        """An event for control's log."""

    def disconnected(self, rank: int, life: NodeProcess, words: str) -> None:
        """Nothing it says will be heard any more, and why."""


class NodeConnections:
    """All connections of one run's control."""

    def __init__(self, nodes: NodeTable, listener: Listener) -> None:
        self._nodes = nodes
        self._listener = listener
        self._entrances: list[Entrance] = []
        self._unclaimed = UnclaimedConnections()

    def listen(self, path: Path) -> None:
        """One socket for all nodes; each is known by its process id."""
        self._entrances = [Entrance(path, self._welcome)]

    def listen_at(self, paths: Iterable[Path]) -> None:
        """A socket for each node, by rank, that only this node can reach."""
        for rank, path in enumerate(paths):
            self._entrances.append(Entrance(path, partial(self.connect, rank)))

    def connect(self, rank: int, connection: socket.socket) -> None:
        """It is of this node, which has begun a life and not connected in it yet; else it is closed."""
        life = self._nodes.get(rank)
        if life is None or life.link is not None:
            connection.close()
            return
        bucket = TokenBucket(lambda: self._listener.noticed(rank, "flood", _FLOOD))
        life.link = PacketLink(connection, lambda packet: self._read(rank, life, packet), lambda: None, bucket)
        self._listener.connected(life)

    def claim(self, rank: int, pid: int) -> None:
        """The process has just been told of; it may have connected already."""
        if (connection := self._unclaimed.take(pid)) is not None:
            self.connect(rank, connection)

    def read_last_words(self, life: NodeProcess) -> None:
        """What a process has said that is over; it may have connected only to say why it ends."""
        if life.link is None:
            for entrance in self._entrances:
                entrance.let_in()
        if life.link is not None:
            life.link.drain()

    def malformed(self, rank: int, life: NodeProcess, problem: str) -> None:
        """A message of a node cannot be read; one that sends many is disconnected."""
        life.malformed += 1
        if life.malformed == 1:
            self._listener.noticed(rank, "not-understood", problem[:200])
        if life.malformed == _MOST_MALFORMED and life.link is not None:
            life.link.close()
            words = f"it sent {_MOST_MALFORMED} malformed messages; disconnected"
            self._listener.disconnected(rank, life, words)

    def close(self) -> None:
        for entrance in self._entrances:
            entrance.close()
        self._unclaimed.close()
        for _, life in self._nodes.lives():
            if life.link is not None:
                life.link.close()

    def _welcome(self, connection: socket.socket) -> None:
        pid = _peer_pid(connection)
        rank = self._nodes.unconnected(pid)
        if rank is None:
            self._unclaimed.add(pid, connection)
        else:
            self.connect(rank, connection)

    def _read(self, rank: int, life: NodeProcess, packet: bytes) -> None:
        life.heard_s = time.monotonic()
        try:
            message = FROM_NODE.read(packet)
        except ProtocolError as problem:
            self.malformed(rank, life, str(problem))
        else:
            self._listener.heard(rank, life, message)


class _Unclaimed(NamedTuple):
    connection: socket.socket
    limit: asyncio.TimerHandle


class UnclaimedConnections:
    """One connection each of processes that are not known yet; closed after a while."""

    def __init__(self) -> None:
        self._by_pid: dict[int, _Unclaimed] = {}

    def add(self, pid: int, connection: socket.socket) -> None:
        if pid in self._by_pid or len(self._by_pid) >= _MOST:
            connection.close()
            return
        limit = asyncio.get_running_loop().call_later(_PATIENCE_S, self._drop, pid)
        self._by_pid[pid] = _Unclaimed(connection, limit)

    def take(self, pid: int) -> socket.socket | None:
        """The process is known now; None when it has not connected yet."""
        found = self._by_pid.pop(pid, None)
        if found is None:
            return None
        found.limit.cancel()
        return found.connection

    def close(self) -> None:
        for pid in list(self._by_pid):
            self._drop(pid)

    def _drop(self, pid: int) -> None:
        connection = self.take(pid)
        if connection is not None:
            connection.close()


def _peer_pid(connection: socket.socket) -> int:
    """The process at the other end, as the kernel knows it."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], "little", signed=True)
