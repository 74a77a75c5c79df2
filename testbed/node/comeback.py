"""Recovery of models that were sent to a node before it went down and came back.

Takes what arrives, gives requests and answers to the outbox; touches nothing else. A model that the node had
acknowledged before it went down is lost, and is not sent again automatically. So a node that comes back asks every peer
whose model it lacks, once. The peer repeats the last model that it sent to this node, or says which rounds are past. It
sends nothing if the requested model is still to come. Of a model in fragments it repeats those of the last round that
went to this node, and says that no others come. Messages to one peer keep their order: after a later round has arrived,
no earlier one follows. If the peer that was asked comes back as well, it begins with the round of the slowest node, and
sends its model anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from testbed.node.kinds import AGAIN, ANSWERS, FRAGMENT, MODEL, PART, PAST, REPEATED
from testbed.node.mailbox import Gathering, Mailbox, Wanted
from testbed.node.messages import Message
from testbed.node.outbox import Outbox
from testbed.node.tickets import Ticket

ANY = 0
"""The round in a request of a node that waits for a model of any round."""
_MOST_PARTS = 1 << 16
"""Fragments of higher numbers are not told apart: what a peer says does not fill the memory."""


class Memory:
    """The models and fragments that a node has sent, to repeat on request.

    A server keeps each model until its client has answered, since only some clients may have one of the newest round.
    Other nodes keep them until the next round begins, since a changing graph may have many recipients.
    """

    def __init__(self, outbox: Outbox, first_round: int, *, serves: bool) -> None:
        self._outbox = outbox
        self._before = first_round - 1
        self._serves = serves
        self._newest = -1
        self._kept: dict[int, dict[int | None, Message]] = {}
        """By recipient and part. Buffers never change, and are shared with the sent message."""
        self._last: dict[int, int] = {}
        """By recipient: the round of the last model sent to it."""
        self.is_closed = False
        """No request is answered any more."""

    def sent(self, to: Collection[int], message: Message) -> None:
        """Remembers a model or a fragment."""
        if message.kind not in REPEATED:
            return
        if message.round > self._newest:
            self._newest = message.round
            if not self._serves:
                self._kept.clear()
        # Not the message itself, which would keep alive the frames that a transport has made of it.
        again, part = message.of_kind(REPEATED[message.kind]), _part_of(message)
        for rank in to:
            if self._last.get(rank) != message.round:
                self._kept.pop(rank, None)
            self._kept.setdefault(rank, {})[part] = again
            self._last[rank] = message.round

    def answered(self, sender: int) -> None:
        """Forgets the model of a client that has answered."""
        if self._serves:
            self._kept.pop(sender, None)

    def answer(self, sender: int, wanted: int) -> None:
        """Answers a node that lacks the model of a round; a later model serves as well."""
        last = self._last.get(sender, self._before)
        kept = self._kept.get(sender, {})
        if self.is_closed or last < wanted or self._outbox.has(sender, (MODEL, *ANSWERS)):
            return  # what is still in the outbox reaches the node after its return, too; fragments count once
        for part in sorted(kept, key=lambda part: -1 if part is None else part):
            self._outbox.post(sender, kept[part])
        if set(kept) != {None}:
            self._outbox.post(sender, Message(PAST, last))


class Comeback:
    """The models that a node still lacks after it came back."""

    def __init__(
        self, mailbox: Mailbox, outbox: Outbox, server: int | None, leave_out: Callable[[Gathering, int], None]
    ) -> None:
        """`server` is another node; this node waits for its models without knowing their rounds."""
        self._mailbox = mailbox
        self._outbox = outbox
        self._server = server
        self._leave_out = leave_out
        self._asked: dict[int, Ticket] = {}
        self._arrived: dict[int, tuple[int, set[int | None]]] = {}
        """By sender: the newest round of which anything has arrived, and the parts."""
        self._past: dict[int, int] = {}
        """By sender: the latest round of which no model will come."""
        self._caught_up: set[tuple[int, int | None]] = set()
        """Senders, and parts, of which a model was there when the node waited for it; they need no further recovery."""
        self._finished: Collection[int] = frozenset()
        self._wanted: Wanted | None = None
        """A wait without a timeout for a model of the server."""

    def sift(self, sender: int, message: Message) -> Message | None:
        """The part of a message that is for the algorithm; None for a repeated model that is already here."""
        if message.kind == PAST:
            self._none_comes(sender, message.round)
            return None
        if message.kind in ANSWERS:
            message = message.of_kind(ANSWERS[message.kind])
            if self._has(sender, message):
                return None
        if message.kind in REPEATED:
            newest, parts = self._arrived.get(sender, (-1, set()))
            if message.round >= newest:
                self._arrived[sender] = message.round, {*(parts if message.round == newest else ()), _part_of(message)}
            self._none_comes(sender, message.round - 1)
        return message

    def _has(self, sender: int, message: Message) -> bool:
        newest, parts = self._arrived.get(sender, (-1, set()))
        return message.round < newest or (message.round == newest and _part_of(message) in parts)

    def begins(self, gathering: Gathering) -> None:
        """Asks for missing models, unless they are known to be past."""
        for sender in sorted(gathering.missing):
            self._look_at(gathering, sender)
        self._ask(gathering.missing, gathering.round, gathering.part)

    def ends(self, gathering: Gathering) -> None:
        """Senders whose model has arrived need not be asked again."""
        self._caught_up.update((sender, gathering.part) for sender in gathering.found)

    def wants(self, wanted: Wanted, *, for_ever: bool) -> None:
        """Asks the server for the model that was lost, unless one has arrived."""
        if self._server is None or MODEL not in wanted.kinds or wanted.future.done():
            return
        if for_ever:
            self._wanted = wanted
            self._look_at_server()
        if not wanted.future.done():
            self._ask([self._server], ANY)

    def finished(self, ranks: Collection[int]) -> None:
        """These nodes have finished and answer no requests."""
        self._finished = ranks
        for gathering in self._mailbox.awaited():
            for sender in sorted(gathering.missing):
                self._look_at(gathering, sender)
        self._look_at_server()

    def is_over(self) -> None:
        """No answer is needed any more."""
        self._outbox.withdraw(self._asked.values())

    def _ask(self, senders: Iterable[int], round_: int, part: int | None = None) -> None:
        for sender in sorted(senders):
            if sender not in self._asked and (sender, part) not in self._caught_up:
                self._asked[sender] = self._outbox.post(sender, Message(AGAIN, round_))

    def _none_comes(self, sender: int, round_: int) -> None:
        self._past[sender] = max(round_, self._past.get(sender, -1))
        for gathering in self._mailbox.awaited():
            if sender in gathering.missing:
                self._look_at(gathering, sender)

    def _look_at(self, gathering: Gathering, sender: int) -> None:
        is_past = sender in self._finished or gathering.round <= self._past.get(sender, -1)
        if is_past and gathering.kind in REPEATED and (sender, gathering.part) not in self._caught_up:
            self._leave_out(gathering, sender)

    def _look_at_server(self) -> None:
        if self._wanted is not None and self._server in self._finished:
            self._wanted.give_up()


def _part_of(message: Message) -> int | None:
    """Which fragment a message is; None for a whole model."""
    part = message.fields.get(PART)
    is_fragment = message.kind in (FRAGMENT, REPEATED[FRAGMENT])
    return part if is_fragment and type(part) is int and 0 <= part < _MOST_PARTS else None
