"""The outbox: messages that a node wants to send, in their order.

Takes messages, gives them to the transport one at a time per peer; touches nothing else. Its policy decides what
happens to messages that still wait when newer ones are posted: results on slow links depend on it. A message of which
the peer takes nothing any more is given up, so that a dead peer never keeps others from being sent to.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from enum import StrEnum

from testbed.node.kinds import PART
from testbed.node.messages import Message
from testbed.node.silence import SilentPeers
from testbed.node.tally import Tally
from testbed.node.tickets import Ticket, TicketState
from testbed.node.world import Transport

_ALMOST_S = 1e-6
"""Alarms ring this close to the time that was meant, by rounding."""


class Policy(StrEnum):
    """What happens to messages that wait while newer ones are sent."""

    FIFO = "fifo"
    """All are sent, in their order."""
    FLUSH = "flush"
    """Messages with a payload of earlier rounds that have not started are dropped."""
    LATEST = "latest"
    """A message with a payload replaces one to the same peer, of the same kind and part, that has not started."""


class Outbox:
    """The outgoing messages of one node; at most one per peer is in the transport."""

    def __init__(
        self, transport: Transport, policy: Policy, in_flight: int | None, silent: SilentPeers | None = None
    ) -> None:
        """`in_flight`: how many messages may be under way, those to silent peers not counted."""
        self._transport = transport
        self._policy = policy
        self._most = in_flight
        self._silent = silent
        self._gives_up = silent is not None and silent.gives_up
        self._is_finishing = False
        self._waiting: dict[int, deque[Ticket]] = {}
        """By peer, the next one first."""
        self._order: dict[int, Ticket] = {}
        """All waiting messages by number, in that order."""
        self._numbers = 0
        self._round = -1
        """The latest of which a message with a payload was posted."""
        self._moving: dict[int, Ticket] = {}
        self._watched: set[int] = set()
        """Peers with an alarm that looks for progress."""
        self._drained: asyncio.Future[None] | None = None
        self.on_given_up: Callable[[int], None] = lambda _rank: None
        """Called with a peer that takes nothing, once for each time that it falls silent."""
        self.sent = Tally()
        """A message counts as a whole when it starts; what never leaves is taken back."""
        self.dropped = 0
        """Messages dropped or withdrawn before they had left."""

    # -- posting ---------------------------------------------------------------------------------------------------

    def post(self, to: int, message: Message) -> Ticket:
        """Adds a message; it starts now if its peer is free."""
        ticket = Ticket(to, message, self._numbers)
        self._numbers += 1
        queue = self._waiting.setdefault(to, deque())
        if message.payload:
            self._make_way(queue, ticket)
        queue.append(ticket)
        self._order[ticket.number] = ticket
        self._go_on([to])
        return ticket

    def _make_way(self, queue: deque[Ticket], ticket: Ticket) -> None:
        """Drops what waits and is not needed any more when this message is posted."""
        if ticket.message.round > self._round:
            self._round = ticket.message.round
            if self._policy is Policy.FLUSH:
                self._drop_all(_with_payload(self._order.values()))
        if self._is_silent(ticket.to):
            self._drop_all(_with_payload(queue))  # it gets the newest when it is back, not all that it missed
        elif self._policy is Policy.LATEST:
            for older in [each for each in _with_payload(queue) if _series(each) == _series(ticket)]:
                queue.remove(older)
                ticket.number = older.number  # in its turn, or the last peers of a round might never get one
                self._order[ticket.number] = ticket
                self._drop(older)

    # -- taking back -----------------------------------------------------------------------------------------------

    def flush(self, kept: Collection[str] = ()) -> list[Ticket]:
        """Withdraws all messages with a payload that have not started, except those of some kinds; gives them."""
        waiting = [each for each in _with_payload(self._order.values()) if each.message.kind not in kept]
        self.withdraw(waiting)
        return waiting

    def withdraw(self, tickets: Iterable[Ticket]) -> None:
        """Takes back these messages, waiting or under way; has no effect on those that have left."""
        self._end(tickets, TicketState.WITHDRAWN)

    def cut(self, only: Collection[int] | None = None) -> None:
        """Drops all messages (to these ranks), those under way included. Bytes that have left stay counted."""
        unsent = [*self._moving.values(), *self._order.values()]
        self._end([ticket for ticket in unsent if only is None or ticket.to in only], TicketState.DROPPED)

    def _end(self, tickets: Iterable[Ticket], state: TicketState, *, at_once: bool = False) -> None:
        """Ends these messages before anything else starts."""
        tickets = dict.fromkeys(tickets)
        self._drop_all([each for each in tickets if self._order.get(each.number) is each], state)
        under_way = [each for each in tickets if self._moving.get(each.to) is each]
        for ticket in under_way:
            del self._moving[ticket.to]
            self._take_back(ticket, state, at_once=at_once)
        self._go_on([ticket.to for ticket in under_way])
        self._tell_if_drained()

    def _take_back(self, ticket: Ticket, state: TicketState, *, at_once: bool) -> None:
        """Aborts a message under way, and takes its unsent bytes out of the count."""
        gone = ticket.abort(at_once=at_once)
        if gone == ticket.nbytes and not at_once:
            ticket.settle(TicketState.LEFT)  # so little was unsent that it arrives
            return
        self.sent.take_back(ticket.message, ticket.nbytes - gone)
        self._drop(ticket, state, gone)

    def _drop_all(self, waiting: Iterable[Ticket], state: TicketState = TicketState.DROPPED) -> None:
        for ticket in waiting:
            self._waiting[ticket.to].remove(ticket)
            del self._order[ticket.number]
            self._drop(ticket, state)

    def _drop(self, ticket: Ticket, state: TicketState = TicketState.DROPPED, sent_bytes: int = 0) -> None:
        self.dropped += 1
        ticket.settle(state, sent_bytes)

    # -- looking ---------------------------------------------------------------------------------------------------

    def has(self, to: int, kinds: Collection[str]) -> bool:
        """Whether a message of one of these kinds to this rank has not left yet."""
        moving = self._moving.get(to)
        unsent = [*self._waiting.get(to, ()), *(() if moving is None else (moving,))]
        return any(ticket.message.kind in kinds for ticket in unsent)

    @property
    def is_empty(self) -> bool:
        """No message is waiting or under way."""
        return not self._moving and not self._order

    async def drained(self) -> None:
        """Waits until the outbox is empty."""
        if not self.is_empty:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def _tell_if_drained(self) -> None:
        if self._drained is not None and self.is_empty:
            self._drained.set_result(None)
            self._drained = None

    # -- sending ---------------------------------------------------------------------------------------------------

    def start_waiting(self) -> None:
        """Starts what may start: peers that have fallen silent leave their room to others."""
        self._go_on(list(self._waiting))

    def _go_on(self, free: Iterable[int]) -> None:
        """Starts the next messages: to peers that may be free, or the oldest ones if their number is limited."""
        for rank in free:
            if self._most is None or self._is_silent(rank):
                self._start(rank)
        while self._most is not None and (oldest := self._oldest()) is not None:
            self._start(oldest.to)

    def _oldest(self) -> Ticket | None:
        """The longest waiting message that may start now."""
        if self._is_full:
            return None
        return next((ticket for ticket in self._order.values() if ticket.to not in self._moving), None)

    @property
    def _is_full(self) -> bool:
        return self._most is not None and sum(not self._is_silent(rank) for rank in self._moving) >= self._most

    def _start(self, to: int) -> None:
        queue = self._waiting.get(to)
        if not queue or to in self._moving:
            return
        ticket = queue.popleft()
        del self._order[ticket.number]
        ticket.state = TicketState.UNDER_WAY
        self._moving[to] = ticket
        self.sent.add(ticket.message.size)
        ticket.begin(self._transport.ship(to, ticket.message, lambda: self._left(ticket)))
        self._watch(to)

    def _left(self, ticket: Ticket) -> None:
        if self._moving.get(ticket.to) is not ticket:
            return
        del self._moving[ticket.to]
        ticket.settle(TicketState.LEFT)
        if self._silent is not None:
            self._silent.has_taken(ticket.to)
        self._go_on([ticket.to])
        self._tell_if_drained()

    # -- giving up -------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """From now on gives up all that makes no progress; models for peers that are silent already at once."""
        self._is_finishing = True
        if self._silent is None:
            return
        self._gives_up = True
        unsent = _with_payload([*self._moving.values(), *self._order.values()])
        lost = [ticket for ticket in unsent if ticket.to in self._silent]
        self._end(lost, TicketState.DROPPED, at_once=True)
        for rank in sorted({ticket.to for ticket in lost}):
            self._falls_silent(rank)
        for rank in list(self._moving):
            self._watch(rank)

    def _is_silent(self, rank: int) -> bool:
        return self._silent is not None and rank in self._silent

    def _watch(self, to: int, for_s: float | None = None) -> None:
        """Sets the alarm of a peer. It stays when a message has left, for the next one: alarms are few, if late."""
        if self._silent is None or not self._gives_up or to in self._watched:
            return
        self._watched.add(to)
        clock = self._silent.clock
        clock.call_at(clock.now() + (self._silent.after_s if for_s is None else for_s), lambda: self._look_at(to))

    def _look_at(self, to: int) -> None:
        """Gives up the message under way to a peer unless the peer has taken some of it lately."""
        assert self._silent is not None  # noqa: S101 - or there would be no alarm
        self._watched.discard(to)
        moving = self._moving.get(to)
        if moving is None:
            return
        quiet_s = moving.quiet_s
        if self._moving.get(to) is not moving:
            return  # the question was answered by: it has left
        if quiet_s < self._silent.after_s - _ALMOST_S:
            self._watch(to, self._silent.after_s - quiet_s)
            return
        self._give_up(moving)

    def _give_up(self, moving: Ticket) -> None:
        """Drops a message under way, and the models behind it. At the end of the node, nothing is left waiting."""
        queue = self._waiting[moving.to]
        lost = list(queue) if self._is_finishing else _with_payload(queue)
        self._falls_silent(moving.to)
        self._end([moving, *lost], TicketState.DROPPED, at_once=True)

    def _falls_silent(self, rank: int) -> None:
        if self._silent is not None and self._silent.takes_nothing(rank):
            self.on_given_up(rank)


def _with_payload(tickets: Iterable[Ticket]) -> list[Ticket]:
    """Those that policies may drop. The others are small, and peers may be waiting for them."""
    return [ticket for ticket in tickets if ticket.message.payload]


def _series(ticket: Ticket) -> tuple[str, object]:
    """What a newer message must have in common with an older one to replace it."""
    return ticket.message.kind, ticket.message.fields.get(PART)
