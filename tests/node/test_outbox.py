"""The outbox: what leaves, in which order, and what is known about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from testbed.node.messages import Message
from testbed.node.outbox import Outbox, Policy, Tally
from testbed.records import Count


class ByHand:
    """A transport in which a message leaves when the test says so."""

    def __init__(self) -> None:
        self.shipped: list[tuple[int, int]] = []
        """Peer and round, in the order in which they started."""
        self.gone: dict[int, Callable[[], None]] = {}
        self.bytes_gone = 0

    def ship(self, to: int, message: Message, on_left: Callable[[], None]) -> ByHand:
        assert to not in self.gone, "one message a peer at a time"
        self.shipped.append((to, message.round))
        self.gone[to] = on_left
        return self

    def abort(self) -> int:
        return self.bytes_gone

    def leave(self, to: int) -> None:
        self.gone.pop(to)()


def model(round_: int) -> Message:
    return Message("model", round_, payload=(np.zeros(25, np.float32),), metadata=(np.zeros(5, np.int32),))


def outbox(policy: str = "fifo", in_flight: int | None = None) -> tuple[Outbox, ByHand]:
    transport = ByHand()
    return Outbox(transport, Policy(policy), in_flight), transport


def test_fifo_sends_everything_in_order_one_a_peer_at_a_time() -> None:
    box, transport = outbox()
    for round_ in (0, 1, 2):
        box.post(7, model(round_))
    box.post(8, model(2))
    assert transport.shipped == [(7, 0), (8, 2)]
    for _ in range(3):
        transport.leave(7)
    assert transport.shipped == [(7, 0), (8, 2), (7, 1), (7, 2)]
    assert box.dropped == 0


def test_flush_drops_earlier_rounds_that_have_not_started_at_all_peers() -> None:
    box, transport = outbox("flush")
    tickets = [box.post(to, model(round_)) for round_, to in [(0, 7), (0, 7), (0, 8), (0, 8), (1, 7)]]
    assert [ticket.dropped for ticket in tickets] == [False, True, False, True, False]
    transport.leave(7)
    transport.leave(8)
    transport.leave(7)
    assert transport.shipped == [(7, 0), (8, 0), (7, 1)]
    assert box.dropped == 2


def test_flush_keeps_all_of_the_newest_round() -> None:
    box, transport = outbox("flush")
    for _ in range(3):
        box.post(7, model(4))
    assert box.dropped == 0
    transport.leave(7)
    transport.leave(7)
    assert transport.shipped == [(7, 4)] * 3


def test_latest_keeps_the_newest_for_each_peer() -> None:
    box, transport = outbox("latest")
    for round_ in (0, 1, 2):
        for to in (7, 8):
            box.post(to, model(round_))
    box.post(8, model(3))
    transport.leave(7)
    transport.leave(8)
    assert transport.shipped == [(7, 0), (8, 0), (7, 2), (8, 3)]
    assert box.dropped == 3


@pytest.mark.parametrize("policy", ["flush", "latest"])
def test_messages_without_a_payload_are_never_dropped_for_newer_ones(policy: str) -> None:
    """An answer of a peer sampler is small, and a node waits for it."""
    box, transport = outbox(policy)
    for message in (model(0), Message("peers", 0), model(0), model(1), Message("peers", 1)):
        box.post(7, message)
    while transport.gone:
        transport.leave(7)
    assert transport.shipped == [(7, 0), (7, 0), (7, 1), (7, 1)]
    assert box.dropped == 1


def test_in_flight_limits_all_peers_together_and_the_oldest_goes_next() -> None:
    box, transport = outbox(in_flight=2)
    for to in (1, 2, 3, 1, 4):
        box.post(to, model(0))
    assert transport.shipped == [(1, 0), (2, 0)]
    transport.leave(2)
    assert transport.shipped[2:] == [(3, 0)]
    transport.leave(3)
    assert transport.shipped[3:] == [(4, 0)], "peer 1 is busy, its second message has to wait"
    transport.leave(1)
    assert transport.shipped[4:] == [(1, 0)]


def test_a_limit_and_a_policy_together_leave_nothing_behind() -> None:
    box, transport = outbox("latest", in_flight=1)
    for round_ in (0, 1, 2):
        for to in (1, 2, 3):
            box.post(to, model(round_))
    while transport.gone:
        transport.leave(next(iter(transport.gone)))
    assert transport.shipped[0] == (1, 0)
    assert sorted(transport.shipped[1:]) == [(1, 2), (2, 2), (3, 2)]
    assert box.dropped == 5


def test_a_ticket_knows_whether_its_message_arrived() -> None:
    async def body() -> None:
        box, transport = outbox("latest")
        first, second, third = (box.post(7, model(round_)) for round_ in (0, 1, 2))
        settled = [asyncio.ensure_future(ticket.settled()) for ticket in (first, second, third)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [each.done() for each in settled] == [False, True, False]
        transport.leave(7)
        transport.leave(7)
        assert await asyncio.gather(*settled) == [True, False, True]
        assert await first.settled()

    asyncio.run(body())


def test_drained_means_that_the_last_byte_has_arrived() -> None:
    async def body() -> None:
        box, transport = outbox()
        box.post(7, model(0))
        box.post(7, model(1))
        drained = asyncio.ensure_future(box.drained())
        for _ in range(2):
            await asyncio.sleep(0)
            assert not drained.done()
            transport.leave(7)
        await asyncio.wait_for(drained, 1)
        await box.drained()

    asyncio.run(body())


@pytest.mark.parametrize(
    ("gone", "payload"), [(0, 0), (10, 0), ("about", 0), ("about+1", 1), ("all-1", 99), ("all", 100)]
)
def test_cut_counts_the_bytes_that_have_left_and_no_others(gone: int | str, payload: int) -> None:
    """The payload goes last over the wire, and so is what is missing first."""
    box, transport = outbox()
    message = model(0)
    about = message.size.metadata
    total = message.nbytes
    named = {"about": about, "about+1": about + 1, "all-1": total - 1, "all": total}
    transport.bytes_gone = gone if isinstance(gone, int) else named[gone]
    moving, waiting = box.post(7, message), box.post(7, model(1))
    box.cut()
    sent = box.sent.count()
    assert sent == Count(payload=payload, metadata=min(about, transport.bytes_gone), control=0, messages=1)
    assert (moving.dropped, waiting.dropped, box.dropped) == (True, True, 2)
    transport.leave(7)
    assert transport.shipped == [(7, 0)], "what leaves after the cut changes nothing"
    assert not moving.left


def test_cut_takes_back_control_bytes_too() -> None:
    box, transport = outbox()
    transport.bytes_gone = 4
    box.post(7, Message("ask", 0))
    box.cut()
    assert box.sent.count() == Count(control=4, messages=1)


def test_sent_is_counted_when_a_message_starts() -> None:
    box, transport = outbox()
    for _ in range(3):
        box.post(7, model(0))
    size = model(0).size
    assert box.sent.count() == size
    transport.leave(7)
    assert box.sent.count() == Count(2 * size.payload, 2 * size.metadata, 0, 2)


def test_a_transport_that_is_done_at_once_is_fine() -> None:
    class AtOnce(ByHand):
        def ship(self, to: int, message: Message, on_left: Callable[[], None]) -> ByHand:
            self.shipped.append((to, message.round))
            on_left()
            return self

    transport = AtOnce()
    box = Outbox(transport, Policy.FIFO, 1)
    post = partial(box.post, message=model(0))
    assert all(post(to).left for to in (1, 2, 1))
    asyncio.run(box.drained())


def test_a_question_about_the_next_round_drops_no_model_of_this_one() -> None:
    for policy in ("flush", "latest"):
        box, transport = outbox(policy)
        for message in (model(0), model(0), Message("ask", 1)):
            box.post(7 if message.payload else 8, message)
        assert box.dropped == 0
        transport.leave(7)
        assert transport.shipped == [(7, 0), (8, 1), (7, 0)]


def test_a_message_that_is_taken_back_later_makes_no_round_negative() -> None:
    """A crash of its recipient takes back what an earlier round has told of; the rounds after it make up for that."""
    tally, message = Tally(), Message("model", 0, payload=(np.zeros(10, np.float32),))
    tally.add(message.size)
    told = tally.count()
    tally.take_back(message, message.size.payload)
    assert tally.since(told).payload == 0
    tally.add(message.size)
    tally.add(message.size)
    assert tally.since(told).payload == message.size.payload == tally.count().payload - told.payload
