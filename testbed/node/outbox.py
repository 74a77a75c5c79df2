"""The outbox: messages that a node wants to send, and those that have left.

Takes messages, gives them to the transport one at a time per peer; touches nothing else. Its policy decides what
happens to messages that still wait when newer ones are posted: results on slow links depend on it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum

from testbed.node.messages import Message
from testbed.node.world import Shipment, Transport
from testbed.records import Count


class Policy(StrEnum):
    """What happens to messages that wait while newer ones are sent."""

    FIFO = "fifo"
    """All are sent, in their order."""
    FLUSH = "flush"
    """Messages of earlier rounds that have not started are dropped."""
    LATEST = "latest"
    """Only the newest message to a peer that has not started stays."""


class Ticket:
    """One message to one peer: waiting, under way, left, or dropped."""

    __slots__ = ("_waiting", "dropped", "left", "message", "shipment", "to")

    def __init__(self, to: int, message: Message) -> None:
        self.to = to
        self.message = message
        self.shipment: Shipment | None = None
        self.left = False
        self.dropped = False
        self._waiting: asyncio.Future[None] | None = None

    async def settled(self) -> bool:
        """Waits until the last byte has left or the message was dropped; gives whether it left."""
        if not (self.left or self.dropped):
            if self._waiting is None:
                self._waiting = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._waiting)
        return self.left

    def settle(self, *, left: bool) -> None:
        self.left, self.dropped = left, not left
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Outbox:
    """The outgoing messages of one node; at most one per peer is in the transport."""

    def __init__(self, transport: Transport, policy: Policy, in_flight: int | None) -> None:
        self._transport = transport
        self._policy = policy
        self._most = in_flight
        self._waiting: dict[int, deque[Ticket]] = {}
        self._order: deque[Ticket] = deque()
        """All waiting messages, oldest first; needed only if the number under way is limited."""
        self._moving: dict[int, Ticket] = {}
        self._round = -1
        self._drained: asyncio.Future[None] | None = None
        self.sent = Tally()
        self.dropped = 0
        self.left = 0
        """Messages whose last byte has left."""

    def post(self, to: int, message: Message) -> Ticket:
        """Adds a message; it starts now if its peer is free."""
        if message.payload and message.round > self._round:
            self._round = message.round
            if self._policy is Policy.FLUSH:
                for waiting in self._waiting.values():
                    self._drop_models(waiting)
        ticket = Ticket(to, message)
        queue = self._waiting.setdefault(to, deque())
        if message.payload and self._policy is Policy.LATEST:
            self._drop_models(queue)
        queue.append(ticket)
        if self._most is not None:
            self._order.append(ticket)
        self._start(to)
        return ticket

    def cut(self, only: Collection[int] | None = None) -> list[int]:
        """Drops all messages (to these ranks), those under way included. Bytes that have left stay counted.

        Gives the ranks whose messages were dropped.
        """
        without = {*self._moving, *(ticket.to for ticket in self._all_waiting())}
        if only is not None:
            without &= set(only)
        for rank in sorted(without):
            for ticket in self._waiting.pop(rank, ()):
                self._drop(ticket)
            moving = self._moving.pop(rank, None)
            if moving is not None:
                self._take_back(moving)
        if self._most is not None:
            self._start_oldest()
        self._tell_if_drained()
        return sorted(without)

    def forget_models(self, ranks: Iterable[int], *, moving: bool = False) -> list[int]:
        """Drops models that wait for these ranks (with `moving` also those under way); gives the ranks that had any."""
        without = []
        for rank in ranks:
            queue = self._waiting.get(rank, deque())
            before = self.dropped
            self._drop_models(queue)
            under_way = self._moving.get(rank)
            if moving and under_way is not None and under_way.message.payload:
                del self._moving[rank]
                self._take_back(under_way)
                self._start_next(rank)
            if self.dropped > before:
                without.append(rank)
        self._tell_if_drained()
        return without

    def withdraw(self, tickets: Iterable[Ticket]) -> None:
        """Drops these messages, waiting or under way; has no effect on those that have left."""
        for ticket in tickets:
            if self._moving.get(ticket.to) is ticket:
                del self._moving[ticket.to]
                self._take_back(ticket)
                self._start_next(ticket.to)
            elif not (ticket.left or ticket.dropped):
                self._waiting[ticket.to].remove(ticket)
                self._drop(ticket)
        self._tell_if_drained()

    def has(self, to: int, kinds: Collection[str]) -> bool:
        """Whether a message of one of these kinds to this rank has not left yet."""
        moving = self._moving.get(to)
        unsent = [*self._waiting.get(to, ()), *(() if moving is None else (moving,))]
        return any(ticket.message.kind in kinds for ticket in unsent)

    @property
    def is_empty(self) -> bool:
        """No message is waiting or under way."""
        return not self._moving and not any(self._all_waiting())

    async def drained(self) -> None:
        """Waits until the outbox is empty, or `wake` is called."""
        if not self.is_empty:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def wake(self) -> None:
        """Ends a wait in `drained`."""
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    def _all_waiting(self) -> Iterator[Ticket]:
        return (ticket for queue in self._waiting.values() for ticket in queue)

    def _start(self, to: int) -> None:
        queue = self._waiting.get(to)
        full = self._most is not None and len(self._moving) >= self._most
        if not queue or to in self._moving or full:
            return
        ticket = queue.popleft()
        self._moving[to] = ticket
        self.sent.add(ticket.message.size)
        ticket.shipment = self._transport.ship(to, ticket.message, lambda: self._left(ticket))

    def _left(self, ticket: Ticket) -> None:
        if self._moving.get(ticket.to) is not ticket:
            return
        del self._moving[ticket.to]
        self.left += 1
        ticket.settle(left=True)
        self._start_next(ticket.to)
        self._tell_if_drained()

    def _start_next(self, to: int) -> None:
        """Starts the next message to a peer that is free."""
        if self._most is None:
            self._start(to)
        else:
            self._start_oldest()

    def _start_oldest(self) -> None:
        """Starts the longest waiting message whose peer is free."""
        while self._order and (self._order[0].shipment is not None or self._order[0].dropped):
            self._order.popleft()
        for ticket in self._order:
            if ticket.shipment is None and not ticket.dropped and ticket.to not in self._moving:
                self._start(ticket.to)
                return

    def _drop_models(self, queue: deque[Ticket]) -> None:
        """Drops messages with a payload. The others are small, and peers may be waiting for them."""
        kept = [ticket for ticket in queue if not ticket.message.payload]
        for ticket in queue:
            if ticket.message.payload:
                self._drop(ticket)
        queue.clear()
        queue.extend(kept)

    def _take_back(self, moving: Ticket) -> None:
        """Aborts a message under way, and takes its unsent bytes out of the count."""
        assert moving.shipment is not None  # noqa: S101 - it is moving
        self.sent.take_back(moving.message, moving.message.nbytes - moving.shipment.abort())
        self._drop(moving)

    def _drop(self, ticket: Ticket) -> None:
        self.dropped += 1
        ticket.settle(left=False)

    def _tell_if_drained(self) -> None:
        if self._drained is not None and self.is_empty:
            self.wake()


class Tally:
    """Totals of bytes and messages."""

    __slots__ = ("control", "messages", "metadata", "payload")

    def __init__(self) -> None:
        self.payload = self.metadata = self.control = self.messages = 0

    def add(self, size: Count) -> None:
        self.payload += size.payload
        self.metadata += size.metadata
        self.control += size.control
        self.messages += size.messages

    def take_back(self, message: Message, unsent: int) -> None:
        """Subtracts the unsent bytes of a message. They are its last ones, and the payload comes last."""
        size = message.size
        payload = min(unsent, size.payload)
        self.payload -= payload
        if message.payload:
            self.metadata -= unsent - payload
        else:
            self.control -= unsent - payload

    def count(self) -> Count:
        return Count(self.payload, self.metadata, self.control, self.messages)

    def since(self, told: Count) -> Count:
        """What has been added to what was told of; nothing as long as less has left, since messages were taken back."""
        return Count(
            max(0, self.payload - told.payload),
            max(0, self.metadata - told.metadata),
            max(0, self.control - told.control),
            max(0, self.messages - told.messages),
        )
