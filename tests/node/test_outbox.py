"""The outbox: what leaves, in which order, and what is known about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush

import numpy as np
import pytest

from testbed.node.messages import Message
from testbed.node.outbox import Outbox, Policy
from testbed.node.silence import SilentPeers
from testbed.node.tally import Tally
from testbed.node.tickets import Ticket
from testbed.records import Count


class Alarm:
    def cancel(self) -> None: ...


class ClockByHand:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.t = 0.0
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self.rung = 0

    def now(self) -> float:
        return self.t

    def call_at(self, t: float, callback: Callable[[], None]) -> Alarm:
        heappush(self._alarms, (t, self.rung + len(self._alarms), callback))
        return Alarm()

    def go_to(self, t: float) -> None:
        while self._alarms and self._alarms[0][0] <= t:
            self.t, _, callback = heappop(self._alarms)
            self.rung += 1
            callback()
        self.t = t


class Shipped:
    """A message under way, of which as many bytes have left as the transport says."""

    def __init__(self, transport: ByHand, to: int) -> None:
        self._transport = transport
        self._to = to
        self._began_s = transport.clock.now()

    def sent_bytes(self) -> int:
        return self._transport.bytes_gone

    def quiet_s(self) -> float:
        return self._transport.clock.now() - max(self._began_s, self._transport.moved_s.get(self._to, 0.0))

    def abort(self, *, at_once: bool = False) -> int:
        self._transport.aborted.append((self._to, at_once))
        self._transport.gone.pop(self._to, None)
        return self._transport.bytes_gone


class ByHand:
    """A transport in which a message leaves when the test says so."""

    def __init__(self) -> None:
        self.clock = ClockByHand()
        self.shipped: list[tuple[int, int]] = []
        """Peer and round, in the order in which they started."""
        self.gone: dict[int, Callable[[], None]] = {}
        self.aborted: list[tuple[int, bool]] = []
        self.bytes_gone = 0
        self.moved_s: dict[int, float] = {}
        """When a peer last took anything."""

    def ship(self, to: int, message: Message, on_left: Callable[[], None]) -> Shipped:
        assert to not in self.gone, "one message a peer at a time"
        self.shipped.append((to, message.round))
        self.gone[to] = on_left
        return Shipped(self, to)

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
    on_left = transport.gone[7]
    box.cut()
    sent = box.sent.count()
    assert sent == Count(payload=payload, metadata=min(about, transport.bytes_gone), control=0, messages=1)
    leaves = gone == "all"
    assert (moving.left, moving.dropped, waiting.dropped, box.dropped) == (leaves, not leaves, True, 2 - leaves)
    assert (moving.sent_bytes, moving.unsent_bytes) == (transport.bytes_gone, total - transport.bytes_gone)
    on_left()
    assert transport.shipped == [(7, 0)], "what leaves after the cut changes nothing"
    assert moving.left is leaves


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
        def ship(self, to: int, message: Message, on_left: Callable[[], None]) -> Shipped:
            self.shipped.append((to, message.round))
            on_left()
            return Shipped(self, to)

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


# -- tickets -------------------------------------------------------------------------------------------------------


def state(*tickets: Ticket) -> list[str]:
    return [ticket.state.value for ticket in tickets]


def test_a_ticket_goes_from_waiting_to_its_end() -> None:
    box, transport = outbox("latest")
    first, second = box.post(7, model(0)), box.post(7, model(1))
    assert state(first, second) == ["under-way", "waiting"]
    transport.bytes_gone = 30
    assert (first.sent_bytes, second.sent_bytes) == (30, 0)
    transport.bytes_gone = 20
    assert first.sent_bytes == 30, "it must be sent again, and counts once"
    third = box.post(7, model(2))
    transport.leave(7)
    assert state(first, second, third) == ["left", "dropped", "under-way"]
    assert (first.sent_bytes, first.unsent_bytes, first.nbytes) == (first.nbytes, 0, model(0).nbytes)
    assert (second.sent_bytes, second.unsent_bytes) == (0, second.nbytes)
    box.withdraw([third, first])
    assert state(first, third) == ["left", "withdrawn"]
    assert (third.left, third.dropped, third.withdrawn) == (False, False, True)
    assert (third.sent_bytes, third.unsent_bytes) == (20, third.nbytes - 20)


def test_withdrawn_messages_settle_their_tickets() -> None:
    async def body() -> None:
        box, _ = outbox()
        tickets = [box.post(7, model(round_)) for round_ in (0, 1)]
        settled = [asyncio.ensure_future(ticket.settled()) for ticket in tickets]
        await asyncio.sleep(0)
        box.withdraw(tickets)
        assert await asyncio.gather(*settled) == [False, False]
        assert await tickets[0].settled() is False

    asyncio.run(body())


def test_flush_withdraws_models_that_have_not_started_and_nothing_else() -> None:
    box, transport = outbox(in_flight=1)
    tickets = [box.post(to, message) for to, message in [(7, model(0)), (8, model(1)), (8, Message("ask", 1))]]
    again = box.post(7, model(1).of_kind("sent-again"))
    later = box.post(9, model(0))
    assert box.flush(kept={"sent-again"}) == [tickets[1], later]
    assert state(*tickets, again, later) == ["under-way", "withdrawn", "waiting", "waiting", "withdrawn"]
    assert (box.dropped, transport.aborted) == (2, [])
    transport.leave(7)
    transport.leave(8)
    assert transport.shipped == [(7, 0), (8, 1), (7, 1)]
    assert box.flush() == []


def test_no_message_starts_only_to_be_withdrawn_in_the_same_call() -> None:
    box, transport = outbox(in_flight=1)
    tickets = [box.post(to, model(0)) for to in (7, 7, 8, 9)]
    box.withdraw(tickets[:3])
    assert transport.shipped == [(7, 0), (9, 0)]
    assert box.sent.messages == 2


def test_latest_replaces_a_message_of_the_same_kind_and_part_only() -> None:
    box, transport = outbox("latest")
    box.post(7, model(0))
    parts = [box.post(7, model(1).with_fields(part=part)) for part in (0, 1, 2)]
    update, whole = box.post(7, model(1).of_kind("update")), box.post(7, model(1))
    newer = [box.post(7, model(2).with_fields(part=part)) for part in (2, 1)]
    assert state(*parts, update, whole, *newer) == ["waiting", "dropped", "dropped", *["waiting"] * 4]
    while transport.gone:
        transport.leave(7)
    assert transport.shipped == [(7, 0), (7, 1), (7, 1), (7, 1), (7, 2), (7, 2)]


def test_latest_keeps_the_turn_of_what_it_replaces() -> None:
    """Otherwise the last peers of a round never get their turn on a link that carries less than a round."""
    box, transport = outbox("latest", in_flight=1)
    for round_ in range(4):
        for to in (1, 2, 3):
            box.post(to, model(round_))
        transport.leave(transport.shipped[-1][0])
    assert transport.shipped == [(1, 0), (2, 0), (3, 1), (1, 2), (2, 3)]


def test_posts_leave_in_their_order_whatever_their_peers() -> None:
    box, transport = outbox("flush", in_flight=2)
    order = [5, 3, 5, 1, 3, 4, 1, 2]
    for to in order:
        box.post(to, model(0))
    left = []
    while transport.gone:
        to = next(iter(transport.gone))
        left.append(to)
        transport.leave(to)
    assert left == [5, 3, 5, 1, 3, 4, 1, 2]


# -- giving up -----------------------------------------------------------------------------------------------------

AFTER_S = 10.0


class Watched:
    """An outbox that gives up."""

    def __init__(self, policy: str = "fifo", in_flight: int | None = None, *, gives_up: bool = True) -> None:
        self.transport = ByHand()
        self.clock = self.transport.clock
        self.heard: dict[int, float] = {}
        self.silent = SilentPeers(self.clock, self.heard, AFTER_S, gives_up=gives_up)
        self.box = Outbox(self.transport, Policy(policy), in_flight, self.silent)
        self.told: list[tuple[int, float]] = []
        self.box.on_given_up = lambda rank: self.told.append((rank, self.clock.now()))

    def hear(self, rank: int) -> None:
        self.heard[rank] = self.clock.now()


def test_a_message_that_makes_no_progress_is_given_up_after_the_timeout() -> None:
    world = Watched()
    world.clock.go_to(3.0)
    world.transport.bytes_gone = 40
    moving, waiting, asked = (world.box.post(7, each) for each in (model(0), model(1), Message("ask", 1)))
    world.clock.go_to(12.9)
    assert state(moving, waiting, asked) == ["under-way", "waiting", "waiting"]
    world.clock.go_to(13.0)
    assert state(moving, waiting, asked) == ["dropped", "dropped", "under-way"]
    assert (moving.sent_bytes, world.transport.aborted) == (40, [(7, True)])
    assert (world.told, world.box.dropped) == ([(7, 13.0)], 2)
    world.clock.go_to(23.0)
    assert state(asked) == ["dropped"]
    assert world.told == [(7, 13.0)], "once"
    assert 7 in world.silent


def test_who_is_slow_is_not_given_up() -> None:
    world = Watched()
    moving = world.box.post(7, model(0))
    for t in (4.0, 9.0, 17.0, 26.9):
        world.clock.go_to(t)
        world.transport.moved_s[7] = t
    world.clock.go_to(36.8)
    assert state(moving) == ["under-way"]
    world.clock.go_to(36.9)
    assert state(moving) == ["dropped"], "to the moment after the last progress"
    assert world.clock.rung == 4, "no polling"


def test_each_message_has_its_own_timeout() -> None:
    world = Watched()
    first, second = world.box.post(7, model(0)), world.box.post(7, model(1))
    world.clock.go_to(6.0)
    world.transport.leave(7)
    world.clock.go_to(15.9)
    assert state(first, second) == ["left", "under-way"]
    world.clock.go_to(16.0)
    assert state(second) == ["dropped"]


@pytest.mark.parametrize("noticed_by", ["sending", "waiting"])
def test_a_dead_peer_holds_no_place_of_in_flight(noticed_by: str) -> None:
    world = Watched(in_flight=1)
    world.box.post(7, model(0))
    others = [world.box.post(8, model(0)), world.box.post(9, model(0))]
    world.clock.go_to(1.0 if noticed_by == "waiting" else AFTER_S)
    if noticed_by == "waiting":
        world.silent.sends_nothing(7)
        world.box.start_waiting()
    assert state(*others) == ["under-way", "waiting"]
    probe = world.box.post(7, model(1))
    world.transport.leave(8)
    assert state(others[1]) == ["under-way"], "what is tried with a silent peer takes no place from others"
    assert state(probe) == ["waiting" if noticed_by == "waiting" else "under-way"]
    newer = world.box.post(7, model(2))
    assert state(probe, newer) == [*(["dropped"] if noticed_by == "waiting" else ["under-way"]), "waiting"]


def test_a_peer_that_is_heard_of_again_gets_all_its_messages() -> None:
    world = Watched(in_flight=1)
    world.box.post(7, model(0))
    world.clock.go_to(AFTER_S)
    tickets = [world.box.post(7, model(round_)) for round_ in (1, 2, 3)]
    assert state(*tickets) == ["under-way", "dropped", "waiting"]
    world.clock.go_to(AFTER_S + 1)
    world.hear(7)
    more, other = world.box.post(7, model(4)), world.box.post(8, model(4))
    assert state(*tickets, more, other) == ["under-way", "dropped", "waiting", "waiting", "waiting"]
    world.clock.go_to(2 * AFTER_S)
    assert [rank for rank, _ in world.told] == [7, 7], "a new silence"


def test_a_peer_that_takes_a_message_is_silent_no_more() -> None:
    world = Watched()
    world.box.post(7, model(0))
    world.clock.go_to(AFTER_S)
    world.box.post(7, model(1))
    world.transport.leave(7)
    assert 7 not in world.silent
    world.silent.sends_nothing(7)
    world.box.post(7, model(2))
    world.transport.leave(7)
    assert 7 in world.silent, "the kernel may have taken it for a peer that is dead"


def test_the_last_words_of_a_peer_do_not_end_its_silence() -> None:
    """Its goodbye is heard at the instant from which it is silent."""
    world = Watched()
    world.clock.go_to(4.0)
    world.hear(7)
    world.silent.sends_nothing(7)
    assert 7 in world.silent
    world.clock.go_to(4.1)
    world.hear(7)
    assert 7 not in world.silent


def test_an_experiment_that_waits_gives_up_nothing_before_the_end() -> None:
    async def body() -> None:
        world = Watched(gives_up=False)
        tickets = [world.box.post(to, message) for to in (7, 8) for message in (model(0), Message("bye", 0))]
        world.clock.go_to(1000.0)
        assert (state(*tickets), world.clock.rung) == (["under-way", "waiting"] * 2, 0)
        world.box.finish()
        drained = asyncio.ensure_future(world.box.drained())
        world.clock.go_to(1005.0)
        world.transport.leave(8)
        world.clock.go_to(1009.9)
        assert state(*tickets) == ["under-way", "waiting", "left", "under-way"]
        world.clock.go_to(1010.0)
        assert state(*tickets) == ["dropped", "dropped", "left", "under-way"]
        world.transport.leave(8)
        await asyncio.wait_for(drained, 1)
        assert world.told == [(7, 1010.0)]

    asyncio.run(body())


def test_in_the_end_models_for_silent_peers_are_given_up_at_once() -> None:
    world = Watched()
    world.silent.sends_nothing(7)
    tickets = [world.box.post(to, message) for to in (7, 8) for message in (model(0), Message("bye", 0))]
    world.box.finish()
    assert state(*tickets) == ["dropped", "under-way", "under-way", "waiting"]
    assert world.told == [(7, 0.0)]
    assert world.transport.aborted == [(7, True)]
