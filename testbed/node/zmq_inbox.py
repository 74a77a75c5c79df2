"""Receives everything that arrives at a node, checks it, and hands over valid messages.

Takes an address to listen at, gives messages with their senders; touches sockets. No peer is trusted: the sender is
identified by the connection's source address, sizes are limited before anything is read, and what is not a message is
counted and dropped.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from functools import partial

from testbed.node.messages import MOST_BUFFERS, MalformedMessage, Message, from_frames
from testbed.node.zmq_connection import HANDSHAKE_MS
from testbed.node.zmq_frames import opened
from testbed.node.zmq_incoming import Ending, IncomingConnection
from testbed.node.zmq_tcp_info import cut_off
from testbed.node.zmtp import SCRATCH_BYTES, FrameReader

Receive = Callable[[int, Message], None]

_MOST_FRAMES = MOST_BUFFERS + 2
"""With the envelope and the header."""
_AT_ONCE = 64
"""Connections accepted before other tasks of this process run."""
_BACKLOG = 128
_ACCEPT_AGAIN_S = 0.5
"""The pause in accepting connections when descriptors have run out."""
_MOST_CONNECTIONS = 16
"""Per address: one is in use, another may be attempted, and those of crashed lives stay for a while."""
_LIVES = 4
"""Lives remembered of one sender: messages of an earlier one may arrive after the first of the next."""
_MARGIN_BYTES = 1 << 20
"""By how much a message may exceed what is read, before its connection is reset."""
_KEEPALIVE_S, _KEEPALIVE_AGAIN_S, _KEEPALIVE_TIMES = 30, 10, 3


class Refusal(StrEnum):
    """Why something that arrived was dropped."""

    STRANGER = "stranger"
    """It came from an address that no node has."""
    IMPOSTOR = "impostor"
    """It claims a rank that does not belong to its source address."""
    MALFORMED = "malformed"
    """It is no message."""
    OVERSIZED = "oversized"
    """It exceeds the largest message of the experiment; beyond the largest frame, the connection is reset unread."""
    DUPLICATE = "duplicate"
    """It was received already, which the sender could not know."""
    GREEDY = "greedy"
    """Not a message but a connection: one too many, or one that sent far more than its messages."""
    FOREIGN = "foreign-protocol"
    """A connection that does not speak ZeroMQ, or broke off during the handshake."""


OnRefusal = Callable[[Refusal, int | None, int], None]
"""Called with the kind, the sender (None when unknown), and the count of this kind from this sender."""
_EXPECTED = {Refusal.DUPLICATE}
"""Not reported: lost connections cause them."""


class ZmqInbox:
    """Listens, and calls `receive` with every message and its sender's rank."""

    def __init__(
        self,
        addresses: Sequence[str],
        own_rank: int,
        port: int,
        largest: int,
        receive: Receive,
        on_refusal: OnRefusal | None = None,
        time_scale: float = 1.0,
    ) -> None:
        """`on_refusal` is called when the count of a kind and sender is a power of two, so that floods log little."""
        self.refused: Counter[Refusal] = Counter()
        self._refused_of: Counter[tuple[Refusal, int | None]] = Counter()
        self._on_refusal = on_refusal
        self._ranks = {address: rank for rank, address in enumerate(addresses)}
        self._largest = largest
        self._receive = receive
        self._time_scale = time_scale
        self._numbers: dict[int, OrderedDict[int, int]] = {}
        """The number of the last message, by sender and life."""
        self._connections: dict[str, deque[IncomingConnection]] = {}
        """By address, oldest first."""
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._listener = socket.create_server((addresses[own_rank], port), backlog=_BACKLOG)
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Stops receiving."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for each in [each for those in self._connections.values() for each in those]:
            each.close(reset=False)
        self._connections.clear()

    def holds_any_of(self, ranks: Collection[int]) -> bool:
        """Whether bytes of these senders are here that were not read yet."""
        those = [each for address, each in self._connections.items() if self._ranks[address] in ranks]
        return any(connection.has_unread for connections in those for connection in connections)

    # -- connections -----------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                made, (address, *_) = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue
            except OSError:  # descriptors have run out
                self._loop.remove_reader(self._listener)
                self._again = self._loop.call_later(_ACCEPT_AGAIN_S, self._accept_again)
                return
            self._take(made, address)

    def _accept_again(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _take(self, made: socket.socket, address: str) -> None:
        """Begins to read, unless a stranger has connected; of too many connections, the oldest is reset.

        The newest is the live one of a peer that reconnected.
        """
        made.setblocking(False)
        for option, value in (
            (socket.TCP_KEEPIDLE, round(_KEEPALIVE_S * self._time_scale)),
            (socket.TCP_KEEPINTVL, round(_KEEPALIVE_AGAIN_S * self._time_scale)),
            (socket.TCP_KEEPCNT, _KEEPALIVE_TIMES),
        ):
            made.setsockopt(socket.IPPROTO_TCP, option, value)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if address not in self._ranks:
            cut_off(made)
            made.close()
            self._refuse(Refusal.STRANGER, address)
            return
        reader = FrameReader(
            self._scratch,
            partial(self._judge, address),
            # Slightly oversized messages are read and counted; larger ones never get any memory.
            largest_frame=2 * self._largest,
            largest_message=2 * self._largest + _MARGIN_BYTES,
            most_frames=_MOST_FRAMES,
        )
        those = self._connections.setdefault(address, deque())
        those.append(IncomingConnection(made, address, reader, HANDSHAKE_MS / 1000 * self._time_scale, self._over))
        if len(those) > _MOST_CONNECTIONS:
            those.popleft().close(reset=True)
            self._refuse(Refusal.GREEDY, address)

    def _over(self, connection: IncomingConnection, ending: Ending) -> None:
        those = self._connections[connection.address]
        those.remove(connection)
        if not those:
            del self._connections[connection.address]
        if ending is Ending.FOREIGN:
            self._refuse(Refusal.FOREIGN, "")
        elif ending is Ending.ENDLESS:
            self._refuse(Refusal.GREEDY, connection.address)

    # -- messages --------------------------------------------------------------------------------------------------

    def _judge(self, address: str, frames: Sequence[bytes | memoryview]) -> None:
        if self._is_closed:
            return
        refusal = self._taken(self._ranks[address], frames)
        if refusal is not None:
            self._refuse(refusal, address)

    def _taken(self, rank: int, frames: Sequence[bytes | memoryview]) -> Refusal | None:
        """Hands over a message; gives why not, if it is refused."""
        envelope = opened(frames[0])
        if envelope is None or not 1 < len(frames) <= _MOST_FRAMES:
            return Refusal.MALFORMED
        if envelope.sender != rank:
            return Refusal.IMPOSTOR
        if sum(map(len, frames)) - len(frames[0]) > self._largest:
            return Refusal.OVERSIZED
        try:
            message = from_frames(frames[1:])
        except MalformedMessage:
            return Refusal.MALFORMED
        if not self._is_new(rank, envelope.life, envelope.number):
            return Refusal.DUPLICATE
        self._receive(rank, message)
        return None

    def _is_new(self, rank: int, life: int, number: int) -> bool:
        lives = self._numbers.setdefault(rank, OrderedDict())
        if number <= lives.get(life, 0):
            return False
        lives[life] = number
        if len(lives) > _LIVES:
            lives.popitem(last=False)
        return True

    def _refuse(self, refusal: Refusal, address: str) -> None:
        rank = self._ranks.get(address)
        self.refused[refusal] += 1
        self._refused_of[refusal, rank] += 1
        count = self._refused_of[refusal, rank]
        if self._on_refusal is not None and refusal not in _EXPECTED and count.bit_count() == 1:
            self._on_refusal(refusal, rank, count)
