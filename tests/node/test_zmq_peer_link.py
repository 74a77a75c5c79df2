"""What goes to one peer over connections that are lost: a kernel by hand, so that every case comes up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from testbed.node.messages import Message
from testbed.node.zmq_connection import ZmqConnection
from testbed.node.zmq_frames import ENVELOPE_BYTES, FramedMessage, OutgoingMessage, opened
from testbed.node.zmq_peer_link import PeerLink
from testbed.node.zmq_tcp_info import TcpProgress


class ByHand:
    """A connection that sends and is acknowledged when the test says so."""

    def __init__(self, on_up: Callable[[ZmqConnection], None], on_over: Callable[[ZmqConnection], None]) -> None:
        self._on_up, self._on_over = on_up, on_over
        self.is_up = False
        self.numbers: list[int] = []
        """Of the messages that were handed over."""
        self.position = self.left = self.acknowledged = 0
        self.closed = False

    def progress(self) -> TcpProgress:
        return TcpProgress(self.left, self.acknowledged)

    def send(self, buffers: list[bytes | memoryview]) -> None:
        assert self.is_up
        assert not self.closed
        envelope = opened(buffers[0][-ENVELOPE_BYTES:])
        assert envelope is not None
        self.numbers.append(envelope.number)
        self.position += SIZE
        assert sum(map(len, buffers)) == SIZE

    def when_sent(self, on_sent: Callable[[], None]) -> None:
        if self.closed:
            return
        if self.left == self.position:
            on_sent()
        else:
            asyncio.get_running_loop().call_later(0.001, self.when_sent, on_sent)

    def close(self, *, forget: bool) -> None:  # noqa: ARG002
        self.closed = True

    def comes_up(self) -> None:
        self.is_up = True
        self._on_up(cast(ZmqConnection, self))

    def is_lost(self) -> None:
        self._on_over(cast(ZmqConnection, self))


def outgoing(number: int, left: list[int] | None = None) -> OutgoingMessage:
    message = Message("model", 7, payload=(np.zeros(10_000, np.float32),))
    return OutgoingMessage(
        number, message, FramedMessage(message), lambda: None if left is None else left.append(number)
    )


SIZE = outgoing(0).framed.wire_bytes


class Peer:
    """A link and the connections that it made, in their order."""

    def __init__(self, time_scale: float = 1.0) -> None:
        self.connections: list[ByHand] = []
        self.link = PeerLink(3, 99, self._connect, time_scale)

    def _connect(
        self, on_up: Callable[[ZmqConnection], None], on_over: Callable[[ZmqConnection], None]
    ) -> ZmqConnection:
        self.connections.append(ByHand(on_up, on_over))
        return cast(ZmqConnection, self.connections[-1])


@pytest.mark.parametrize(
    ("left", "acknowledged", "again"),
    [
        (0.0, 0.0, [1, 2, 3, 4, 5]),
        (0.5, 0.0, [1, 2, 3, 4, 5]),
        (3.5, 0.0, [1, 2, 3, 4, 5]),
        (3.5, 1.0, [2, 3, 4, 5]),
        (3.5, 2.9, [3, 4, 5]),
        (3.0, 3.0, [4, 5]),
        (5.0, 4.0, [5]),
        (5.0, 5.0, []),
    ],
)
def test_what_had_not_arrived_goes_again_in_its_order(left: float, acknowledged: float, again: list[int]) -> None:
    async def body() -> None:
        peer, gone = Peer(), list[int]()
        for number in range(1, 6):
            peer.link.send(outgoing(number, gone))
        (first,) = peer.connections
        first.comes_up()
        while first.left < left * SIZE:  # one at a time is written
            first.left = min(first.position, int(left * SIZE))
            await asyncio.sleep(0.005)
        first.acknowledged = int(acknowledged * SIZE)
        peer.link.look()
        first.is_lost()
        assert first.closed
        assert gone == list(range(1, int(left) + 1))
        assert len(peer.connections) == (2 if again else 1)
        if again:
            second = peer.connections[1]
            second.comes_up()
            while len(second.numbers) < len(again):
                second.left = second.acknowledged = second.position
                await asyncio.sleep(0.005)
            second.left = second.acknowledged = second.position
            peer.link.look()
            assert second.numbers == again
        assert peer.link.is_idle
        assert gone == [1, 2, 3, 4, 5]  # each is told once
        peer.link.close(forget=True)

    asyncio.run(asyncio.wait_for(body(), 20))


def test_no_more_leave_than_can_be_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the connection would take: what has left stays here until it has arrived."""
    monkeypatch.setattr("testbed.node.zmq_peer_link._UNDERWAY", 4)

    async def body() -> None:
        peer, gone = Peer(), list[int]()
        for number in range(1, 11):
            peer.link.send(outgoing(number, gone))
        (first,) = peer.connections
        first.comes_up()
        await leave(first)
        assert first.numbers == [1, 2, 3, 4]
        first.acknowledged = 2 * SIZE
        await leave(first)
        assert first.numbers == gone == [1, 2, 3, 4, 5, 6]
        first.is_lost()
        second = peer.connections[1]
        second.comes_up()
        while not peer.link.is_idle:
            second.left = second.acknowledged = second.position
            await asyncio.sleep(0.005)
        assert second.numbers == [3, 4, 5, 6, 7, 8, 9, 10]
        assert gone == [*range(1, 11)]
        peer.link.close(forget=True)

    asyncio.run(asyncio.wait_for(body(), 20))


async def leave(connection: ByHand) -> None:
    """All that is handed over leaves."""
    for _ in range(60):
        connection.left = connection.position
        await asyncio.sleep(0.005)


def test_a_connection_that_is_made_beforehand_is_the_one_that_is_used() -> None:
    async def body() -> None:
        peer = Peer()
        peer.link.open()
        peer.link.open()
        (only,) = peer.connections
        assert not peer.link.is_up.is_set()
        only.comes_up()
        assert peer.link.is_up.is_set()
        peer.link.send(outgoing(1))
        assert only.numbers == [1]
        only.is_lost()
        assert not peer.link.is_up.is_set()
        assert len(peer.connections) == 2
        peer.link.close(forget=True)

    asyncio.run(asyncio.wait_for(body(), 20))


def test_an_idle_connection_that_is_lost_is_not_made_again_before_it_is_needed() -> None:
    async def body() -> None:
        peer = Peer()
        peer.link.open()
        peer.connections[0].comes_up()
        peer.connections[0].is_lost()
        assert len(peer.connections) == 1
        peer.link.send(outgoing(1))
        assert len(peer.connections) == 2
        peer.link.close(forget=True)

    asyncio.run(asyncio.wait_for(body(), 20))


def test_bytes_that_must_leave_again_are_counted_once() -> None:
    async def body() -> None:
        peer = Peer()
        moving, waiting = outgoing(1), outgoing(2)
        ahead = moving.framed.ahead_bytes
        for each in (moving, waiting):
            peer.link.send(each)
        (first,) = peer.connections
        assert peer.link.sent_bytes(moving) == 0
        first.comes_up()
        for left, expected in [(0, 0), (ahead, 0), (ahead + 1, 1), (SIZE // 2, SIZE // 2 - ahead)]:
            first.left = left
            assert [peer.link.sent_bytes(each) for each in (moving, waiting)] == [expected, 0]
        first.left += 100
        first.is_lost()
        before = SIZE // 2 - ahead + 100
        assert peer.link.sent_bytes(moving) == before, "though nothing asked before it was lost"
        second = peer.connections[1]
        second.comes_up()
        second.left = ahead + 5
        assert peer.link.sent_bytes(moving) == before
        second.left = SIZE // 2 + 1000
        assert peer.link.sent_bytes(moving) == before + 900
        second.is_lost()
        assert [peer.link.abort(each) for each in (moving, waiting)] == [before + 900, 0]
        third = outgoing(3)
        peer.link.send(third)
        peer.connections[2].comes_up()
        await leave(peer.connections[2])
        assert peer.connections[2].numbers == [3]
        assert peer.link.sent_bytes(third) == third.message.nbytes
        peer.link.close(forget=True)

    asyncio.run(asyncio.wait_for(body(), 20))


def test_a_peer_is_quiet_until_its_kernel_answers_or_acknowledges() -> None:
    async def body() -> None:
        peer = Peer(time_scale=0.1)
        moving = outgoing(1)
        peer.link.send(moving)
        await asyncio.sleep(0.05)
        assert peer.link.quiet_s(moving) >= 0.5, "in emulated seconds"
        (first,) = peer.connections
        first.comes_up()
        assert peer.link.quiet_s(moving) < 0.5
        first.left = 20_000
        await asyncio.sleep(0.05)
        assert peer.link.quiet_s(moving) >= 0.5, "what leaves may go nowhere"
        first.acknowledged = 10_000
        assert peer.link.quiet_s(moving) < 0.5
        later = outgoing(2)
        await asyncio.sleep(0.05)
        peer.link.send(later)
        assert peer.link.quiet_s(later) < 0.5, "it was posted only now"
        peer.link.close(forget=True)

    asyncio.run(asyncio.wait_for(body(), 20))


@pytest.mark.parametrize("at_once", [False, True])
def test_the_last_bytes_are_let_go_unless_it_must_end_at_once(at_once: bool) -> None:
    async def body() -> None:
        peer = Peer()
        moving = outgoing(1)
        peer.link.send(moving)
        (only,) = peer.connections
        only.comes_up()
        only.left = SIZE - 100
        assert peer.link.abort(moving, at_once=at_once) == moving.message.nbytes - (100 if at_once else 0)
        assert only.closed is at_once
        peer.link.close(forget=True)

    asyncio.run(asyncio.wait_for(body(), 20))
