"""Delivers messages to one peer, over as many successive connections as its restarts and the network require.

Takes messages, writes them one by one, each when the previous one has left; touches its connections. The kernel tells
what has left and what has arrived, so no acknowledgement messages are needed. What had not arrived when a
connection ended is sent again on the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from testbed.node.zmq_connection import ZmqConnection
from testbed.node.zmq_frames import OutgoingMessage
from testbed.node.zmq_tcp_info import TcpProgress

Connect = Callable[[Callable[[ZmqConnection], None], Callable[[ZmqConnection], None]], ZmqConnection]
"""Makes a connection that will call the first function when it is up, and the second when it is over."""

_PATIENCE_S = 1.0
"""A peer that has acknowledged nothing for this long may be dead, or have restarted since."""
_CHECKS = 2
"""Checks of that in this time. What has arrived is not urgent: the next message, or the end of the run, asks for it."""
_RATHER_LET_GO = 4 << 10
"""Fewer unsent bytes than this are sent rather than giving up the connection."""
_UNDERWAY = 4096
"""Maximum of unacknowledged messages; the next one waits. Only tiny ones reach it: others fill the kernel's buffer."""
_ROOM_S = 0.01
"""Time between checks whether there are fewer."""


class PeerLink:
    """Sends messages to one peer, in order."""

    def __init__(self, rank: int, life: int, connect: Connect, time_scale: float) -> None:
        self._rank = rank
        self._life = life
        self._connect = connect
        self._time_scale = time_scale
        self._patience_s = _PATIENCE_S * time_scale
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[OutgoingMessage] = deque()
        self._leaving: OutgoingMessage | None = None
        """The message that is being written, or held by the kernel."""
        self._gone: deque[OutgoingMessage] = deque()
        """Messages that have left, but are not acknowledged."""
        self._connection: ZmqConnection | None = None
        self._rival: ZmqConnection | None = None
        """A second connection, attempted while the peer is silent on the current one."""
        self._timer: asyncio.TimerHandle | None = None
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
        outgoing.posted_s = self._loop.time()
        self._waiting.append(outgoing)
        self.open()
        self._hand_over_next()

    def sent_bytes(self, outgoing: OutgoingMessage) -> int:
        """How many bytes of a message have left."""
        if outgoing.left:
            return outgoing.message.nbytes
        if outgoing is self._leaving and self._connection is not None and self._connection.is_up:
            outgoing.note_left(self._connection.progress().left)
        return outgoing.sent_bytes

    def quiet_s(self, outgoing: OutgoingMessage) -> float:
        """Emulated seconds since the peer acknowledged anything, or since this message was posted."""
        if self._connection is not None and self._connection.is_up:
            self._learn(self._connection.progress())
        return (self._loop.time() - max(self._heard_s, outgoing.posted_s)) / self._time_scale

    def abort(self, outgoing: OutgoingMessage, *, at_once: bool = False) -> int:
        """Stops sending a message; returns how many of its bytes have left.

        The few last ones are rather let go than the connection given up, but not `at_once`.
        """
        if outgoing.left:
            return outgoing.message.nbytes
        if outgoing is not self._leaving:
            if outgoing in self._waiting:
                self._waiting.remove(outgoing)
            return outgoing.sent_bytes
        assert self._connection is not None  # noqa: S101 - it is leaving on it
        left = self._connection.progress().left
        outgoing.note_left(left)
        if not at_once and outgoing.end - left <= _RATHER_LET_GO:
            outgoing.left = True
            return outgoing.message.nbytes
        self._leaving = None
        self._begin_anew(forget=True)
        return outgoing.sent_bytes

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

    def _put_back(self) -> None:
        """Queues messages that have not arrived again, in order."""
        if self._leaving is not None:
            self.sent_bytes(self._leaving)
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
        outgoing.begin = connection.position
        self._leaving = outgoing
        connection.send(outgoing.buffers(self._rank, self._life))
        self._loop.call_soon(self._look_for, connection, outgoing)

    def _look_for(self, connection: ZmqConnection, outgoing: OutgoingMessage) -> None:
        """Looks whether a message that was just written has left at once; else the connection tells when it has."""
        if self._connection is not connection or self._leaving is not outgoing:
            return
        self.look()
        if self._leaving is outgoing and connection is self._connection:
            connection.when_sent(self.look)

    def look(self) -> None:
        """Updates what has left and arrived, and schedules the next check."""
        connection = self._connection
        if connection is None or not connection.is_up:
            return
        self._learn(connection.progress())
        if self._waiting and len(self._gone) >= _UNDERWAY:
            self._check_in(_ROOM_S)
        elif self._timer is None and not self.is_idle:
            self._check_in(self._patience_s / _CHECKS)

    def _check_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self.look()
        is_silent = not self.is_idle and self._loop.time() - self._heard_s >= self._patience_s
        if is_silent and self._rival is None and self._connection is not None and self._connection.is_up:
            self._rival = self._connect(self._up, self._over)

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
