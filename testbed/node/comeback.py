"""A node that comes back, and its peers: what they had sent to its former life.

Takes what arrives, gives questions and answers to the outbox; touches nothing else. A model that a node's former life
had acknowledged is lost, and is not sent again by itself. So a node that comes back asks every peer whose model it
lacks, once. The peer sends the last model that it had sent to it again, or says which rounds are past; nothing, if what
is asked for is still to come. What goes to one peer keeps its order: once a later round is here, none before it comes
any more. Should the peer that was asked come back as well, it begins with the round of the slowest, and sends anyhow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from testbed.node.mailbox import AGAIN, PAST, SENT_AGAIN, Gathering, Mailbox, Wanted
from testbed.node.messages import Message
from testbed.node.outbox import Outbox, Ticket
from testbed.node.sharing.base import MODEL

ANY = 0
"""Asked for by a node that waits for a model of whatever round."""


class Memory:
    """The models that a node has sent, for those that ask for theirs again.

    A server's are kept until they are answered, since only some clients may have one of the newest round; other
    nodes' until the next round begins: on a graph that changes, there may be many recipients.
    """

    def __init__(self, outbox: Outbox, first_round: int, *, serves: bool) -> None:
        self._outbox = outbox
        self._before = first_round - 1
        self._serves = serves
        self._newest = -1
        self._kept: dict[int, Message] = {}
        """By recipient. Buffers never change, and are shared with what was sent."""
        self._last: dict[int, int] = {}
        """By recipient: the round of the last model that was sent to it."""
        self.is_closed = False
        """No question is answered any more."""

    def sent(self, to: Collection[int], message: Message) -> None:
        """Remember a model."""
        if message.kind != MODEL:
            return
        if message.round > self._newest:
            self._newest = message.round
            if not self._serves:
                self._kept.clear()
        # Not the message itself: as long as that is there, so are the frames that a transport has made of it.
        self._kept.update(dict.fromkeys(to, message.of_kind(SENT_AGAIN)))
        self._last.update(dict.fromkeys(to, message.round))

    def answered(self, sender: int) -> None:
        """It has made something of what it was sent, and needs it no more."""
        if self._serves:
            self._kept.pop(sender, None)

    def answer(self, sender: int, wanted: int) -> None:
        """It lacks the model of a round, and would take a later one."""
        last = self._last.get(sender, self._before)
        if self.is_closed or last < wanted or self._outbox.has(sender, (MODEL, SENT_AGAIN)):
            return  # what has not left yet reaches any life
        self._outbox.post(sender, self._kept.get(sender) or Message(PAST, last))


class Comeback:
    """What a node that came back still lacks."""

    def __init__(
        self, mailbox: Mailbox, outbox: Outbox, server: int | None, leave_out: Callable[[Gathering, int], None]
    ) -> None:
        """`server` is another node, whose models are waited for without knowing their rounds."""
        self._mailbox = mailbox
        self._outbox = outbox
        self._server = server
        self._leave_out = leave_out
        self._asked: dict[int, Ticket] = {}
        self._arrived: dict[int, int] = {}
        """By sender: the round of the newest model that has arrived."""
        self._past: dict[int, int] = {}
        """By sender: no model of this round or an earlier one comes any more."""
        self._caught_up: set[int] = set()
        """Senders whose model was found when it was waited for: from then on all is as with any node."""
        self._finished: Collection[int] = frozenset()
        self._wanted: Wanted | None = None
        """For what the server sends, if need be for ever."""

    def sift(self, sender: int, message: Message) -> Message | None:
        """What of a message is for the algorithm; not what was sent again and is here already."""
        if message.kind == PAST:
            self._none_comes(sender, message.round)
            return None
        if message.kind == SENT_AGAIN:
            if message.round <= self._arrived.get(sender, -1):
                return None
            message = message.of_kind(MODEL)
        if message.kind == MODEL:
            self._arrived[sender] = max(message.round, self._arrived.get(sender, -1))
            self._none_comes(sender, message.round - 1)
        return message

    def begins(self, gathering: Gathering) -> None:
        """Ask for what is not here, unless it is known that it will never come."""
        for sender in sorted(gathering.missing):
            self._look_at(gathering, sender)
        self._ask(gathering.missing, gathering.round)

    def ends(self, gathering: Gathering) -> None:
        """Senders that were found need not be asked any more."""
        self._caught_up.update(gathering.found)

    def wants(self, wanted: Wanted, *, for_ever: bool) -> None:
        """Ask the server for what its former life was sent, unless something is here."""
        if self._server is None or MODEL not in wanted.kinds or wanted.future.done():
            return
        if for_ever:
            self._wanted = wanted
            self._look_at_server()
        if not wanted.future.done():
            self._ask([self._server], ANY)

    def finished(self, ranks: Collection[int]) -> None:
        """These are done and gone: they answer no more."""
        self._finished = ranks
        for gathering in self._mailbox.awaited():
            for sender in sorted(gathering.missing):
                self._look_at(gathering, sender)
        self._look_at_server()

    def is_over(self) -> None:
        """No answer is needed any more."""
        self._outbox.withdraw(self._asked.values())

    def _ask(self, senders: Iterable[int], round_: int) -> None:
        for sender in sorted(senders):
            if sender not in self._asked and sender not in self._caught_up:
                self._asked[sender] = self._outbox.post(sender, Message(AGAIN, round_))

    def _none_comes(self, sender: int, round_: int) -> None:
        self._past[sender] = max(round_, self._past.get(sender, -1))
        for gathering in self._mailbox.awaited():
            if sender in gathering.missing:
                self._look_at(gathering, sender)

    def _look_at(self, gathering: Gathering, sender: int) -> None:
        is_past = sender in self._finished or gathering.round <= self._past.get(sender, -1)
        if is_past and gathering.kind == MODEL and sender not in self._caught_up:
            self._leave_out(gathering, sender)

    def _look_at_server(self) -> None:
        if self._wanted is not None and self._server in self._finished:
            self._wanted.give_up()
