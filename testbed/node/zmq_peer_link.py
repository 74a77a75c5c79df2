"""Delivers messages to one peer, over as many successive connections as its restarts and the network require.

Takes messages, hands them to ZeroMQ one by one, each when the previous one has left; touches its connections. The
kernel tells what has left and what has arrived, so no acknowledgement messages are needed. What had not arrived when a
connection ended is sent again on the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from testbed.node.zmq_connection import ZmqConnection
from testbed.node.zmq_frames import Envelope, OutgoingMessage
from testbed.node.zmq_tcp_info import TcpProgress

Connect = Callable[[Callable[[ZmqConnection], None], Callable[[ZmqConnection], None]], ZmqConnection]
"""Makes a connection that will call the first function when it is up, and the second when it is over."""

_SOONEST_S, _LATEST_S = 0.001, 0.1
"""Bounds of the time between checks of a message's progress."""
_ARRIVAL_S = 0.25
"""Time between checks whether all has arrived; not urgent."""
_AT_ONCE = 3
"""Immediate checks after a message has been handed over: a small one has left by then."""
_PATIENCE_S = 1.0
"""A peer that has acknowledged nothing for this long may be dead, or have restarted since."""
_RATHER_LET_GO = 4 << 10
"""Fewer unsent bytes than this are sent rather than giving up the connection."""
_UNDERWAY = 4096
"""Maximum of unacknowledged messages; the next one waits. Only tiny ones reach it: others fill the kernel's buffer."""
_ROOM_S = 0.01
"""Time between checks whether there are fewer."""


class PeerLink:
    """Sends messages to one peer, in order."""

    def __init__(self, rank: int, life: int, connect: Connect, time_scale: float, on_idle: Callable[[], None]) -> None:
        self._rank = rank
        self._life = life
        self._connect = connect
        self._patience_s = _PATIENCE_S * time_scale
        self._on_idle = on_idle
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[OutgoingMessage] = deque()
        self._leaving: OutgoingMessage | None = None
        """The message held by ZeroMQ or the kernel."""
        self._gone: deque[OutgoingMessage] = deque()
        """Messages that have left, but are not acknowledged."""
        self._connection: ZmqConnection | None = None
        self._rival: ZmqConnection | None = None
        """A second connection, attempted while the peer is silent on the current one."""
        self._timer: asyncio.Handle | None = None
        self._looks = 0
        self._acknowledged = 0
        self._heard_s = 0.0
        self.connections = 0
        """Number of connections that have been up."""
        self.is_up = asyncio.Event()
        """Set while there is a connection on which the peer has answered."""

    @property
    def is_idle(self) -> bool:
        """Whether all messages have left and arrived."""
        return not (self._waiting or self._leaving or self._gone)

    def open(self) -> None:
        """Opens a connection even though there is nothing to send yet."""
        if self._connection is None:
            self._connection = self._connect(self._up, self._over)

    def send(self, outgoing: OutgoingMessage) -> None:
        """Sends a message after all earlier ones."""
        self._waiting.append(outgoing)
        self.open()
        self._hand_over_next()

    def abort(self, outgoing: OutgoingMessage) -> int:
        """Stops sending a message; returns how many of its bytes have left."""
        if outgoing.left:
            return outgoing.message.nbytes
        if outgoing is not self._leaving:
            if outgoing in self._waiting:
                self._waiting.remove(outgoing)
                self._tell_if_idle()
            return 0
        assert self._connection is not None  # noqa: S101 - it is leaving on it
        left = self._connection.progress().left
        if outgoing.end - left <= _RATHER_LET_GO:
            outgoing.left = True
            return outgoing.message.nbytes
        self._leaving = None
        self._begin_anew(forget=True)
        return outgoing.bytes_left(left)

    def close(self, *, forget: bool) -> None:
        """Stops sending and all callbacks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in (self._connection, self._rival):
            if connection is not None:
                connection.close(forget=forget)
        self._connection = self._rival = None

    # -- connections -----------------------------------------------------------------------------------------------

    def _up(self, connection: ZmqConnection) -> None:
        if connection is self._rival:
            self._rival = None
            if self._connection is not None and self._connection.progress().acknowledged > self._acknowledged:
                connection.close(forget=True)  # the peer was only slow
                return
            self._put_back()
            if self._connection is not None:
                self._connection.close(forget=True)
            self._connection = connection
        self.connections += 1
        self.is_up.set()
        self._acknowledged = 0
        self._heard_s = self._loop.time()
        self._hand_over_next()

    def _over(self, connection: ZmqConnection) -> None:
        if connection is self._connection:
            self._learn(connection.progress())
            self._begin_anew(forget=True)

    def _begin_anew(self, *, forget: bool) -> None:
        """Ends the connection; another one is opened when there is something to send."""
        self._put_back()
        rival, self._rival = self._rival, None
        self.is_up.clear()
        self.close(forget=forget)
        self._connection = rival
        if self._waiting and rival is None:
            self._connection = self._connect(self._up, self._over)
        self._tell_if_idle()

    def _put_back(self) -> None:
        """Queues messages that have not arrived again, in order."""
        if self._leaving is not None:
            self._waiting.appendleft(self._leaving)
            self._leaving = None
        self._waiting.extendleft(reversed(self._gone))
        self._gone.clear()

    # -- messages ---------------------------------------------------------------------------------------------------

    def _hand_over_next(self) -> None:
        connection = self._connection
        if connection is None or not connection.is_up or self._leaving is not None or not self._waiting:
            return
        if len(self._gone) >= _UNDERWAY:
            return  # a check is scheduled already, since not all has arrived
        outgoing = self._waiting.popleft()
        if self.is_idle:
            self._heard_s = self._loop.time()
        outgoing.begin = connection.progress().written
        self._leaving = outgoing
        if not connection.send([Envelope(self._rank, self._life, outgoing.number).packed(), *outgoing.framed.frames]):
            self._begin_anew(forget=True)
            return
        self._looks = 0
        self._look_after(0.0)

    def _look_after(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._look) if delay_s else self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Updates what has left and arrived, and schedules the next check."""
        self._timer = None
        connection = self._connection
        if connection is None or not connection.is_up:
            return
        self._looks += 1
        now = connection.progress()
        self._learn(now)
        if self.is_idle:
            self._tell_if_idle()
            return
        self._look_after(self._until_news(now))
        if self._loop.time() - self._heard_s >= self._patience_s and self._rival is None:
            self._rival = self._connect(self._up, self._over)

    def _until_news(self, now: TcpProgress) -> float:
        """Time until the next check."""
        if self._leaving is not None:
            return self._until_left(self._leaving, now)
        return _ROOM_S if self._waiting else _ARRIVAL_S

    def _until_left(self, outgoing: OutgoingMessage, now: TcpProgress) -> float:
        """Most of the time that the message still needs at the recent rate."""
        if self._looks < _AT_ONCE and outgoing.framed.wire_bytes <= _RATHER_LET_GO:
            return 0.0
        if not now.rate:
            return _SOONEST_S
        return min(_LATEST_S, max(_SOONEST_S, 0.8 * (outgoing.end - now.left) / now.rate))

    def _learn(self, now: TcpProgress) -> None:
        if now.acknowledged > self._acknowledged:
            self._acknowledged = now.acknowledged
            self._heard_s = self._loop.time()
            if self._rival is not None:
                self._rival.close(forget=True)
                self._rival = None
        outgoing = self._leaving
        has_left = outgoing is not None and now.left >= outgoing.end
        if outgoing is not None and has_left:
            self._leaving = None
            self._gone.append(outgoing)
        while self._gone and self._gone[0].end <= now.acknowledged:
            self._gone.popleft()
        if outgoing is not None and has_left and not outgoing.left:
            outgoing.left = True
            outgoing.on_left()
        self._hand_over_next()

    def _tell_if_idle(self) -> None:
        if self.is_idle:
            self._on_idle()
