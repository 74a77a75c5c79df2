"""Outboxes on a network in virtual time: whatever is posted, taken back or broken, every byte is accounted for."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from testbed.network.flows import BandwidthSharing, Flows, Tcp
from testbed.node.messages import Message
from testbed.node.outbox import Outbox, Policy
from testbed.node.silence import SilentPeers
from testbed.node.tickets import Ticket, TicketState
from testbed.runtimes.sim.clock import Stalled, VirtualClock
from testbed.runtimes.sim.network import FRAME_BYTES, VirtualNetwork
from testbed.seeds import stream
from tests.network.test_flows import PLAIN, pair
from tests.network.test_flows_any import SITES, disturbed

AFTER_S = 3.0
LASTS_S = 20.0
FINAL = (TicketState.LEFT, TicketState.DROPPED, TicketState.WITHDRAWN)


def model(round_: int, values: int, **fields: int) -> Message:
    return Message("model", round_, fields, payload=(np.zeros(values, np.float32),))


class Sender:
    """A life of one node: its outbox and all of its tickets."""

    def __init__(self, story: Story, rank: int) -> None:
        self.rank = rank
        self.heard: dict[int, float] = {}
        silent = SilentPeers(story.clock, self.heard, AFTER_S, gives_up=story.gives_up)
        self.box = Outbox(story.network.transport(rank), story.policy, story.in_flight, silent)
        self.tickets: list[Ticket] = []
        self.seen: dict[Ticket, int] = {}
        self.is_alive = True

    def check(self) -> None:
        """What a ticket says never goes back, and what the outbox says is their sum."""
        whole = 0
        for ticket in self.tickets:
            sent = ticket.sent_bytes
            assert self.seen.get(ticket, 0) <= sent <= ticket.nbytes
            self.seen[ticket] = sent
            assert not ticket.left or sent == ticket.nbytes
            assert ticket.state is not TicketState.WAITING or sent == 0
            assert ticket.unsent_bytes == (ticket.nbytes - sent if ticket.dropped or ticket.withdrawn else 0)
            whole += ticket.nbytes if ticket.state is TicketState.UNDER_WAY else sent
        count = self.box.sent.count()
        assert count.payload + count.metadata + count.control == whole
        assert min(count.payload, count.metadata, count.control) >= 0
        assert self.box.dropped == sum(ticket.dropped or ticket.withdrawn for ticket in self.tickets)


class Story:
    """A while in which anything may happen."""

    def __init__(self, seed: int, policy: str, in_flight: int | None, *, gives_up: bool = True) -> None:
        self.draw = stream(seed, "story")
        self.policy, self.in_flight, self.gives_up = Policy(policy), in_flight, gives_up
        self.clock = VirtualClock()
        flows = Flows(SITES, seed=seed, tcp=Tcp(), sharing=BandwidthSharing.MAX_MIN)
        self.network = VirtualNetwork(flows, self.clock)
        self.clock.drive(self.network)
        self.arrived: Counter[int] = Counter()
        """By the number in a message's field `id`."""
        self.senders: dict[int, Sender] = {}
        self.past: list[Sender] = []
        self.posted = 0
        for rank in range(SITES.node_count):
            self.join(rank)

    def join(self, rank: int) -> None:
        if rank not in self.senders:
            sender = self.senders[rank] = Sender(self, rank)
            self.network.attach(rank, partial(self.take, sender))

    def take(self, sender: Sender, origin: int, message: Message) -> None:
        sender.heard[origin] = self.clock.now()
        number = message.fields["id"]
        assert isinstance(number, int)
        self.arrived[number] += 1

    def run(self) -> None:
        t = 0.0
        while t < LASTS_S:
            t += self.draw.expovariate(8)
            actions = [self.post, self.flush, self.withdraw, self.crash, self.return_, self.change, self.check]
            self.clock.call_at(t, self.draw.choices(actions, weights=[12, 1, 2, 0.2, 0.5, 0.3, 3])[0])
        self.clock.call_at(LASTS_S, self.end)
        with suppress(Stalled):
            while True:
                self.clock.jump()
        self.check()

    def end(self) -> None:
        self.network.change(SITES)
        for rank in range(SITES.node_count):
            self.join(rank)
        for sender in self.senders.values():
            sender.box.finish()

    def post(self) -> None:
        sender = self.draw.choice(list(self.senders.values()))
        round_ = int(self.clock.now() / 2)
        for _ in range(self.draw.choice([1, 1, 3, 12])):
            to = self.draw.choice([rank for rank in range(SITES.node_count) if rank != sender.rank])
            self.posted += 1
            if self.draw.random() < 0.2:
                message = Message("word", round_, {"id": self.posted})
            else:
                values = self.draw.choice([1, 300, 5000, 40_000])
                message = model(round_, values, id=self.posted, part=self.draw.randrange(2))
            sender.tickets.append(sender.box.post(to, message))

    def flush(self) -> None:
        sender = self.draw.choice(list(self.senders.values()))
        waiting = [each for each in sender.tickets if each.state is TicketState.WAITING and each.message.payload]
        assert sorted(each.number for each in sender.box.flush()) == sorted(each.number for each in waiting)
        assert all(each.withdrawn for each in waiting)

    def withdraw(self) -> None:
        sender = self.draw.choice(list(self.senders.values()))
        chosen = self.draw.sample(sender.tickets, min(6, len(sender.tickets)))
        before = [each.state for each in chosen]
        sender.box.withdraw(chosen + chosen)
        for ticket, state in zip(chosen, before, strict=True):
            assert ticket.state is (state if state in FINAL else ticket.state)
            assert ticket.withdrawn or ticket.left or ticket.dropped

    def crash(self) -> None:
        rank = self.draw.choice(list(self.senders))
        if len(self.senders) > 2:
            self.network.detach(rank)
            sender = self.senders.pop(rank)
            sender.is_alive = False
            self.past.append(sender)

    def return_(self) -> None:
        self.join(self.draw.randrange(SITES.node_count))

    def change(self) -> None:
        self.network.change(disturbed(self.draw))

    def check(self) -> None:
        for sender in self.senders.values():
            sender.check()


@pytest.mark.parametrize("in_flight", [None, 2])
@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("seed", range(4))
def test_any_story(seed: int, policy: str, in_flight: int | None) -> None:
    story = Story(seed, policy, in_flight, gives_up=seed % 4 > 0)
    story.run()
    for sender in story.senders.values():
        assert sender.box.is_empty
        assert all(ticket.state in FINAL for ticket in sender.tickets)
        sent = sender.box.sent.count()
        assert sent.payload + sent.metadata + sent.control == sum(ticket.sent_bytes for ticket in sender.tickets)
        for ticket in sender.tickets:
            number = ticket.message.fields["id"]
            assert isinstance(number, int)
            assert story.arrived[number] == ticket.left, "what has left arrives once, what was cut never"
    assert set(story.arrived.values()) == {1}
    states = Counter(ticket.state for sender in story.senders.values() for ticket in sender.tickets)
    assert min(states[TicketState.LEFT], states[TicketState.WITHDRAWN]) > 0
    assert states[TicketState.DROPPED] > 0 or policy == "fifo"


class Pair:
    """Two nodes, of which the first sends 300 kB in 0.3 s."""

    def __init__(self, *, gives_up: bool = True) -> None:
        self.clock = VirtualClock()
        self.network = VirtualNetwork(Flows(pair(), seed=1, tcp=PLAIN), self.clock)
        self.clock.drive(self.network)
        self.arrived: list[float] = []
        self.given_up: list[float] = []
        for rank in (0, 1):
            self.attach(rank)
        silent = SilentPeers(self.clock, {}, AFTER_S, gives_up=gives_up)
        self.box = Outbox(self.network.transport(0), Policy.FIFO, None, silent)
        self.box.on_given_up = lambda _rank: self.given_up.append(self.clock.now())

    def attach(self, rank: int) -> None:
        self.network.attach(rank, lambda _origin, _message: self.arrived.append(self.clock.now()))

    def go_to(self, t: float) -> None:
        self.clock.call_at(t, lambda: None)
        while self.clock.now() < t:
            self.clock.jump()


MESSAGE = model(0, 75_000)
AHEAD = FRAME_BYTES * len(MESSAGE.frames())


def test_a_message_to_a_peer_that_dies_half_way_is_given_up_a_timeout_later() -> None:
    world = Pair()
    ticket = world.box.post(1, MESSAGE)
    world.go_to(0.1)
    assert ticket.sent_bytes == pytest.approx(100_000 - AHEAD, abs=20)
    world.go_to(0.2)
    world.network.detach(1)
    world.go_to(0.2 + AFTER_S - 0.001)
    assert ticket.state is TicketState.UNDER_WAY
    world.go_to(10.0)
    assert world.given_up == [pytest.approx(0.2 + AFTER_S, abs=1e-3)]
    assert ticket.dropped
    assert ticket.sent_bytes == pytest.approx(200_000 - AHEAD, abs=20), "though they would have had to leave again"
    world.attach(1)
    world.go_to(20.0)
    assert world.arrived == []


def test_what_had_left_is_known_though_nothing_asked_before_the_peer_died() -> None:
    world = Pair(gives_up=False)
    ticket = world.box.post(1, MESSAGE)
    world.go_to(0.2)
    world.network.detach(1)
    world.go_to(1.0)
    assert ticket.sent_bytes == pytest.approx(200_000 - AHEAD, abs=20)
    world.go_to(100.0)
    world.attach(1)
    world.go_to(100.1)
    assert ticket.sent_bytes == pytest.approx(200_000 - AHEAD, abs=20), "the same ones again"
    world.go_to(100.25)
    assert ticket.sent_bytes > 220_000
    world.go_to(101.0)
    assert (ticket.left, len(world.arrived)) == (True, 1)


@pytest.mark.parametrize(("at_s", "unsent"), [(0.1, 200_000), (0.29, 10_000), (0.2975, 0)])
def test_a_withdrawn_message_is_cut_unless_hardly_anything_is_left_of_it(at_s: float, unsent: int) -> None:
    world = Pair()
    ticket = world.box.post(1, MESSAGE)
    world.go_to(at_s)
    world.box.withdraw([ticket])
    assert ticket.unsent_bytes == pytest.approx(unsent, abs=4096)
    assert ticket.withdrawn == (unsent > 0)
    world.go_to(5.0)
    assert len(world.arrived) == (unsent == 0)


def test_a_message_that_takes_longer_than_the_timeout_is_not_given_up() -> None:
    world = Pair()
    ticket = world.box.post(1, model(0, 1_100_000))
    world.go_to(10.0)
    assert ticket.left
    assert world.arrived == [pytest.approx(4.45, abs=0.01)]
    assert world.given_up == []


def test_not_even_the_last_bytes_are_let_go_when_a_message_is_given_up() -> None:
    world = Pair()
    ticket = world.box.post(1, MESSAGE)
    world.go_to(0.2975)
    world.network.change(replace(pair(), up=np.zeros(2, np.bool_)))
    world.go_to(10.0)
    assert world.given_up == [pytest.approx(0.2975 + AFTER_S, abs=1e-3)]
    assert ticket.dropped
    world.network.change(pair())
    world.go_to(100.0)
    assert world.arrived == []
