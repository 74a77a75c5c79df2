"""The mailbox: messages that have arrived at a node, and what the node waits for.

Takes messages from the transport, gives them to the node; touches nothing else.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable

from testbed.node.messages import Message, Received
from testbed.node.outbox import Tally


def arrival(received: Received) -> tuple[float, int, int]:
    """Sort key: time of arrival, then rank, because the order within one instant is chance."""
    return received.t, received.sender, received.round


class Wanted:
    """A wait for one message of some kinds."""

    def __init__(self, kinds: Collection[str]) -> None:
        self.kinds = kinds
        self.future: asyncio.Future[Received | None] = asyncio.get_running_loop().create_future()

    def offer(self, received: Received) -> bool:
        if self.future.done() or received.message.kind not in self.kinds:
            return False
        self.future.set_result(received)
        return True

    def give_up(self) -> None:
        """Ends the wait without a message."""
        if not self.future.done():
            self.future.set_result(None)


_MOST_MODELS = 16
"""Limit per sender: more rounds than any algorithm lets a node be ahead of another one."""
_ALWAYS_BYTES = 16 << 20
"""Bytes that one sender may always fill, even if models are small."""
MOST_MESSAGES = 4096
"""Limit per sender, however small the messages are."""

GOODBYE = "goodbye"
"""The kind of the last message of a node that leaves in good order."""
AGAIN = "send-again"
"""The kind of a message by which a node that came back asks for the model of a round, or of a later one."""
SENT_AGAIN = "sent-again"
"""The kind of an answer to that: a model, which may be here already."""
PAST = "rounds-past"
"""The kind of another answer: no model of this round or an earlier one comes any more."""
RESERVED = frozenset({GOODBYE, AGAIN, SENT_AGAIN, PAST})
"""Kinds reserved for nodes: no algorithm gets or sends them."""


def check_kind(kind: str) -> None:
    """Raises ValueError for a reserved kind."""
    if kind in RESERVED:
        raise ValueError(f"`{kind}` is a kind of message that nodes use among themselves: give yours another name")


class Gathering:
    """A wait for one message of a kind and round from each of some peers, or from the first few of them."""

    def __init__(self, kind: str, round_: int, senders: Iterable[int], enough: int | None = None) -> None:
        self.kind = kind
        self.round = round_
        self.missing = set(senders)
        self.enough = len(self.missing) if enough is None else min(enough, len(self.missing))
        self.found: dict[int, Received] = {}
        self.silent = False
        """Whether a peer has been silent for too long."""
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def offer(self, received: Received) -> bool:
        if received.sender not in self.missing or received.round != self.round or received.message.kind != self.kind:
            return False
        self.missing.discard(received.sender)
        self.found[received.sender] = received
        if len(self.found) >= self.enough:
            self.give_up()
        return True

    def give_up(self) -> None:
        """Ends the wait with the messages that are there."""
        if not self.future.done():
            self.future.set_result(None)

    def leave_out(self, sender: int) -> None:
        """Stops waiting for a peer that sends nothing any more."""
        self.missing.discard(sender)
        self.enough = min(self.enough, len(self.found) + len(self.missing))
        if len(self.found) >= self.enough:
            self.give_up()

    def by_rank(self) -> list[Received]:
        """The collected messages by rank. Of more than enough the first ones; of one instant those of lowest rank."""
        first = sorted(self.found.values(), key=arrival)[: self.enough]
        return sorted(first, key=lambda received: received.sender)


class Room:
    """Limits the stored messages per sender: a flood from one node does not displace messages of others."""

    def __init__(self, model_bytes: int) -> None:
        self._most_bytes = max(_MOST_MODELS * model_bytes, _ALWAYS_BYTES)
        self._bytes: Counter[int] = Counter()
        self._messages: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()
        """Dropped messages, by sender."""

    def take(self, sender: int, message: Message) -> bool:
        """Reserves room for a message; False if there is none."""
        if self._messages[sender] >= MOST_MESSAGES or self._bytes[sender] + message.nbytes > self._most_bytes:
            self.refused[sender] += 1
            return False
        self._messages[sender] += 1
        self._bytes[sender] += message.nbytes
        return True

    def leave(self, sender: int, message: Message) -> None:
        self._messages[sender] -= 1
        self._bytes[sender] -= message.nbytes


class Mailbox:
    """Keeps messages by kind, in the order of arrival, within the limits of each sender."""

    def __init__(self, now: Callable[[], float], model_bytes: int = 0) -> None:
        self._now = now
        self._room = Room(model_bytes)
        self._kept: dict[str, dict[int, Received]] = {}
        self._places: dict[tuple[str, int, int], list[int]] = {}
        self._arrivals = 0
        self._waiting: list[Wanted | Gathering] = []
        self.received = Tally()
        self.sift: Callable[[int, Message], Message | None] = lambda _sender, message: message
        """Filters messages: gives what is for the algorithm, None for a message that is for the node itself."""
        self.on_full: Callable[[int, int], None] = lambda _sender, _refused: None
        """Called with a sender and its number of dropped messages, whenever that is a power of two."""
        self.heard: dict[int, float] = {}
        """When each sender was last heard of."""
        self._finished: Collection[int] = frozenset()
        """Senders of which nothing comes any more."""

    def put(self, sender: int, message: Message, *, counted: bool = True) -> None:
        """Stores a complete message. Messages of the node to itself crossed no network and are not counted."""
        if counted:
            self.received.add(message.size)
        self.heard[sender] = self._now()
        sifted = self.sift(sender, message)
        if sifted is not None:
            self._keep(Received(sender, sifted, self.heard[sender]))

    def _keep(self, received: Received) -> None:
        sender, message = received.sender, received.message
        for waiting in self._waiting:
            if waiting.offer(received):
                return
        if not self._room.take(sender, message):
            refused = self._room.refused[sender]
            if refused.bit_count() == 1:
                self.on_full(sender, refused)
            return
        self._arrivals += 1
        self._kept.setdefault(message.kind, {})[self._arrivals] = received
        self._places.setdefault((message.kind, message.round, sender), []).append(self._arrivals)

    @property
    def refused(self) -> int:
        """Messages dropped because their sender's room was full."""
        return self._room.refused.total()

    def finished(self, ranks: Collection[int]) -> None:
        """Of these senders nothing comes any more; a set that is changed later, and given again then."""
        self._finished = ranks

    def gatherings(self) -> list[Gathering]:
        """All gatherings that `done` has not removed."""
        return [each for each in self._waiting if isinstance(each, Gathering)]

    def take(self, kinds: Collection[str]) -> Received | None:
        """The longest waiting message of some kinds, if there is one."""
        first = [next(iter(kept)) for kind in kinds if (kept := self._kept.get(kind))]
        if not first:
            return None
        number = min(first)
        kind = next(kind for kind in kinds if number in self._kept.get(kind, ()))
        return self._remove(kind, number)

    def take_all(self, kinds: Collection[str]) -> list[Received]:
        """All messages of some kinds, in the order of arrival; those of one instant by rank."""
        for kind in kinds:
            check_kind(kind)
        found = []
        while (received := self.take(kinds)) is not None:
            found.append(received)
        return sorted(found, key=arrival)

    def discard_before(self, kind: str, round_: int) -> list[Received]:
        """Drops and returns the messages older than a round."""
        old = [number for number, received in self._kept.get(kind, {}).items() if received.round < round_]
        return [self._remove(kind, number) for number in old]

    def want(self, kinds: Collection[str]) -> Wanted:
        """Begins to wait for the next message of some kinds. The caller awaits its future, then calls `done`."""
        for kind in kinds:
            check_kind(kind)
        wanted = Wanted(kinds)
        here = self.take(kinds)
        if here is not None:
            wanted.offer(here)
        self._waiting.append(wanted)
        return wanted

    def gather(self, kind: str, round_: int, senders: Iterable[int], enough: int | None = None) -> Gathering:
        """Begins to collect one message from each sender. The caller awaits its future, then calls `done`."""
        check_kind(kind)
        gathering = Gathering(kind, round_, senders, enough)
        for sender in sorted(gathering.missing):
            numbers = self._places.get((kind, round_, sender))
            if numbers:
                gathering.offer(self._remove(kind, numbers[0]))
        if not gathering.enough:
            gathering.give_up()
        self._waiting.append(gathering)
        return gathering

    def awaited(self) -> list[Gathering]:
        """Gatherings that still wait for messages."""
        return [each for each in self._waiting if isinstance(each, Gathering) and not each.future.done()]

    def done(self, waiting: Wanted | Gathering) -> None:
        self._waiting.remove(waiting)

    def _remove(self, kind: str, number: int) -> Received:
        received = self._kept[kind].pop(number)
        self._room.leave(received.sender, received.message)
        place = (kind, received.round, received.sender)
        numbers = self._places[place]
        numbers.remove(number)
        if not numbers:
            del self._places[place]
        return received
