"""Pairwise averaging: two nodes move their models half-way to each other, so that the sum of both stays the same.

Takes requests and replies, changes the models of nodes; touches nothing else. One node asks with its model, the other
answers with its own. Both then add half of the difference of the two models that were sent, so that nothing is lost of
what they have learned or averaged meanwhile. Every exchange has a number. A request without a reply is sent again with
the same number, and the same reply comes back, so that each side averages at most once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from testbed.node.messages import Message, Received, UnusableModel, snapshot
from testbed.node.node import Node
from testbed.node.sharing.base import values_of, whole, whole_in
from testbed.node.state import State, UnusableState, whole_number_in, whole_numbers_in
from testbed.node.tickets import Ticket, TicketState

REQUEST, REPLY = "request", "reply"
_HALF = np.float32(0.5)

Number = tuple[int, int]
"""The time at which a life of the asking node began, in microseconds, and a count. It grows also after a crash of which
nothing was saved."""


@dataclass
class _Exchange:
    """An exchange that this node has asked for."""

    number: Number
    request: Message
    since_s: float
    """When it was asked for first."""
    quiet_since_s: float
    """When more of the last request was last seen to have left, or it was asked."""
    ticket: Ticket | None
    """That of the last request; None if it was sent in an earlier life."""
    sent_bytes: int = 0
    """How much of it had left at the last look."""


class Asking:
    """The exchanges that a node asks for; with each partner one at a time."""

    def __init__(self) -> None:
        self.open: dict[int, _Exchange] = {}
        """By partner: what has not been answered yet."""
        self._life = self._count = 0

    def begin(self, node: Node) -> None:
        """A life of the node begins; exchanges of the one before are asked for again."""
        self._life = max(0, round(node.now() * 1e6))
        for exchange in self.open.values():
            exchange.since_s = node.now()

    def ask(self, node: Node, partner: int) -> None:
        """Sends the node's model to a partner with which no exchange is open."""
        self._count += 1
        number = (self._life, self._count)
        request = whole(node.model, node.round).of_kind(REQUEST).with_fields(number=list(number))
        (ticket,) = node.send(partner, request)
        self.open[partner] = _Exchange(number, request, node.now(), node.now(), ticket)

    def quiet_since_s(self, node: Node, partner: int) -> float:
        """When more of the request to a partner was last seen to have left, or it was asked."""
        exchange = self.open[partner]
        sent_bytes = 0 if exchange.ticket is None else exchange.ticket.sent_bytes
        if sent_bytes > exchange.sent_bytes:
            exchange.sent_bytes, exchange.quiet_since_s = sent_bytes, node.now()
        return exchange.quiet_since_s

    def ask_again(self, node: Node, after_s: float) -> None:
        """Repeats the requests that left that long ago."""
        for partner, exchange in self.open.items():
            if node.now() >= self.quiet_since_s(node, partner) + after_s and _is_over(exchange.ticket):
                exchange.sent_bytes, exchange.quiet_since_s = 0, node.now()
                (exchange.ticket,) = node.send(partner, exchange.request)

    def take(self, node: Node, reply: Received) -> None:
        """Averages, once; a reply to an earlier request has no effect."""
        exchange = self.open.get(reply.sender)
        if exchange is None or _number_of(reply) != exchange.number:
            return
        del self.open[reply.sender]
        if reply.message.payload:
            theirs = whole_in(reply, node.model.size)
            node.model += _HALF * (theirs - values_of(exchange.request))

    def forget(self, partners: Iterable[int]) -> None:
        """Of these partners no reply comes any more: what they have answered is here, and nothing else is averaged."""
        for partner in partners:
            self.open.pop(partner, None)

    def withdraw(self, node: Node) -> None:
        """Ends all exchanges: requests that have not left never do."""
        node.withdraw([each.ticket for each in self.open.values() if each.ticket is not None])
        self.open.clear()

    def state(self) -> State:
        """Exchanges that are open, to be asked for again with the same numbers."""
        return {
            "count": self._count,
            **_saved(REQUEST, {rank: (each.number, each.request) for rank, each in self.open.items()}),
        }

    def restore(self, state: State) -> None:
        self._count = whole_number_in(state, "count")
        for rank, (number, request) in _restored(state, REQUEST).items():
            self.open[rank] = _Exchange(number, request, 0.0, -inf, None)


@dataclass
class _Answer:
    """The last reply to one node."""

    number: Number
    reply: Message
    ticket: Ticket | None


class Answering:
    """The replies of a node; the last one to each node that asks is kept."""

    def __init__(self) -> None:
        self.heard_s: dict[int, float] = {}
        """When each node has asked last."""
        self._last: dict[int, _Answer] = {}

    def answer(self, node: Node, request: Received) -> None:
        """Replies with the model as it is, and averages; a request that comes again gets the same reply once more."""
        sender, number, last = request.sender, _number_of(request), self._last.get(request.sender)
        self.heard_s[sender] = node.now()
        if last is None or number > last.number:
            theirs = whole_in(request, node.model.size)
            reply = whole(node.model, node.round).of_kind(REPLY).with_fields(number=list(number))
            node.model += _HALF * (theirs - node.model)
            (ticket,) = node.send(sender, reply)
            self._last[sender] = _Answer(number, reply, ticket)
        elif number < last.number:
            node.send(sender, Message(REPLY, node.round, {"number": list(number)}))  # of a life that is over
        elif _is_over(last.ticket):
            (last.ticket,) = node.send(sender, last.reply)

    def state(self) -> State:
        """The last replies, with which the model of the same moment is averaged already."""
        return _saved(REPLY, {rank: (each.number, each.reply) for rank, each in self._last.items()})

    def restore(self, state: State) -> None:
        for rank, (number, reply) in _restored(state, REPLY).items():
            self._last[rank] = _Answer(number, reply, None)


def _is_over(ticket: Ticket | None) -> bool:
    """Whether a message has left, or never leaves."""
    return ticket is None or ticket.state not in (TicketState.WAITING, TicketState.UNDER_WAY)


def _number_of(received: Received) -> Number:
    number = received.message.fields.get("number")
    if not isinstance(number, list) or len(number) != 2 or not all(type(each) is int for each in number):
        raise UnusableModel(received.sender, f"`{received.message.kind}` with the number {number!r}")
    return number[0], number[1]


def _saved(kind: str, messages: Mapping[int, tuple[Number, Message]]) -> State:
    """Messages with models, and their numbers, by the rank of the other side."""
    return {
        f"{kind} ranks": list(messages),
        f"{kind} numbers": [part for number, message in messages.values() for part in (*number, message.round)],
        **{f"{kind} {rank}": values_of(message) for rank, (_, message) in messages.items()},
    }


def _restored(state: State, kind: str) -> dict[int, tuple[Number, Message]]:
    """What `_saved` gave; raises UnusableState."""
    ranks, parts = whole_numbers_in(state, f"{kind} ranks"), whole_numbers_in(state, f"{kind} numbers")
    if len(parts) != 3 * len(ranks):
        raise UnusableState(f"`{kind} numbers` are not three for each rank")
    found = {}
    for place, rank in enumerate(ranks):
        life, count, round_ = parts[3 * place : 3 * place + 3]
        values = state.get(f"{kind} {rank}")
        if not isinstance(values, np.ndarray) or values.dtype != np.float32 or values.ndim != 1:
            raise UnusableState(f"`{kind} {rank}` is no vector of float32")
        found[rank] = (life, count), Message(kind, round_, {"number": [life, count]}, (snapshot(values),))
    return found
