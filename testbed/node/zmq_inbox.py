"""Receives everything that arrives at a node, checks it, and hands over valid messages.

Takes an address to listen at, gives messages with their senders; touches sockets. No peer is trusted: the sender is
identified by the connection's source address, sizes are limited before anything is read, and what is not a message is
counted and dropped.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from enum import StrEnum

import zmq

from testbed.node.messages import MalformedMessage, Message, from_frames
from testbed.node.zmq_connection import HANDSHAKE_MS
from testbed.node.zmq_frames import frame_bytes, opened
from testbed.node.zmq_guard import ConnectionGuard
from testbed.node.zmq_monitor import Monitor, descriptor

Receive = Callable[[int, Message], None]

_MOST_FRAMES = 16
_AT_ONCE = 64
"""Messages read before other tasks of this process run."""
_LIVES = 4
"""Lives remembered of one sender: messages of an earlier one may arrive after the first of the next."""
_WAITING_MESSAGES = 8
"""Per connection; beyond them the sender has to wait."""
_KEEPALIVE_S, _KEEPALIVE_AGAIN_S, _KEEPALIVE_TIMES = 30, 10, 3
_HANDSHAKE_FAILED = (
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


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
        context: zmq.Context[zmq.Socket[bytes]],
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
        self._numbers: dict[int, OrderedDict[int, int]] = {}
        """The number of the last message, by sender and life."""
        self._loop = asyncio.get_running_loop()
        self._guard = ConnectionGuard(largest, _WAITING_MESSAGES, self._ranks, self._cut)
        self._socket = context.socket(zmq.PULL)
        self._again: asyncio.Handle | None = None
        try:
            self._listen(f"tcp://{addresses[own_rank]}:{port}", time_scale)
        except BaseException:
            self._socket.close(linger=0)
            raise
        self._descriptor = descriptor(self._socket)
        self._loop.add_reader(self._descriptor, self._read)
        wanted = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | _HANDSHAKE_FAILED
        self._monitor = Monitor(self._socket, wanted, self._hear)
        self._read()

    def _listen(self, endpoint: str, time_scale: float) -> None:
        options = {
            zmq.LINGER: 0,
            zmq.RCVHWM: _WAITING_MESSAGES,
            # Slightly oversized messages are read and counted; larger ones never get any memory.
            zmq.MAXMSGSIZE: 2 * self._largest,
            zmq.HANDSHAKE_IVL: round(HANDSHAKE_MS * time_scale),
            zmq.TCP_KEEPALIVE: 1,
            zmq.TCP_KEEPALIVE_IDLE: round(_KEEPALIVE_S * time_scale),
            zmq.TCP_KEEPALIVE_INTVL: round(_KEEPALIVE_AGAIN_S * time_scale),
            zmq.TCP_KEEPALIVE_CNT: _KEEPALIVE_TIMES,
        }
        for option, value in options.items():
            self._socket.setsockopt(option, value)
        self._socket.bind(endpoint)

    def close(self) -> None:
        """Stops receiving."""
        if self._socket.closed:
            return
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._descriptor)
        self._monitor.close()
        self._guard.close()
        self._socket.close(linger=0)

    def _read(self) -> None:
        """Reads what is there. ZeroMQ's descriptor signals only changes: leftovers must be read again later."""
        self._again = None
        for _ in range(_AT_ONCE):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            # Monitor events that precede a message tell which connection its descriptor belongs to.
            self._monitor.read()
            refusal = self._judge(frames)
            if refusal is not None:
                self._refuse(refusal, str(frames[0].get("Peer-Address")))
            if self._socket.closed:
                return
        self._again = self._loop.call_soon(self._read)

    def _judge(self, frames: Sequence[zmq.Frame]) -> Refusal | None:
        address = str(frames[0].get("Peer-Address"))
        self._guard.brought(frames[0].get(zmq.SRCFD), sum(frame_bytes(len(frame)) for frame in frames))
        rank = self._ranks.get(address)
        if rank is None:
            return Refusal.STRANGER
        envelope = opened(frames[0].bytes) if len(frames[0]) < 256 else None
        if envelope is None or not 1 < len(frames) <= _MOST_FRAMES:
            return Refusal.MALFORMED
        if envelope.sender != rank:
            return Refusal.IMPOSTOR
        if sum(len(frame) for frame in frames[1:]) > self._largest:
            return Refusal.OVERSIZED
        try:
            message = from_frames([frames[1].bytes, *(frame.buffer for frame in frames[2:])])
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

    def _hear(self, event: int, value: int) -> None:
        match event:
            case zmq.EVENT_ACCEPTED:
                self._guard.comes(value)
            case zmq.EVENT_DISCONNECTED:
                self._guard.goes(value)
            case _:
                self._refuse(Refusal.FOREIGN, "")

    def _cut(self, address: str) -> None:
        self._refuse(Refusal.GREEDY if address in self._ranks else Refusal.STRANGER, address)

    def _refuse(self, refusal: Refusal, address: str) -> None:
        rank = self._ranks.get(address)
        self.refused[refusal] += 1
        self._refused_of[refusal, rank] += 1
        count = self._refused_of[refusal, rank]
        if self._on_refusal is not None and refusal not in _EXPECTED and count.bit_count() == 1:
            self._on_refusal(refusal, rank, count)
