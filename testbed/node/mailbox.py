"""The mailbox: messages that have arrived at a node, and what the node waits for.

Takes messages from the transport, gives them to the node; touches nothing else.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

from testbed.node.kinds import PART, RESERVED
from testbed.node.messages import Message, Received
from testbed.node.tally import Tally


def arrival(received: Received) -> tuple[float, int, int]:
    """Sort key: time of arrival, then rank, because the order within one instant is chance."""
    return received.t, received.sender, received.round


class Wanted:
    """A wait for one message: of some kinds (none given: of any kind without a handler), of one sender or any."""

    def __init__(self, kinds: Collection[str], sender: int | None = None, without: Collection[str] = ()) -> None:
        self.kinds = kinds
        self.sender = sender
        self._without = without
        self.future: asyncio.Future[Received | None] = asyncio.get_running_loop().create_future()

    def offer(self, received: Received) -> bool:
        kind = received.message.kind
        fits = kind in self.kinds if self.kinds else kind not in self._without
        if self.future.done() or not fits or self.sender not in (None, received.sender):
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


class Gathering:
    """A wait for one message of a kind and round from each of some peers, or from the first few of them.

    With `part` only messages count whose field `part` is that number.
    """

    def __init__(
        self, kind: str, round_: int, senders: Iterable[int], enough: int | None = None, part: int | None = None
    ) -> None:
        self.kind = kind
        self.round = round_
        self.part = part
        self.missing = set(senders)
        self.enough = len(self.missing) if enough is None else min(enough, len(self.missing))
        self.found: dict[int, Received] = {}
        self.silent = False
        """Whether a peer has been silent for too long."""
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fits(self, received: Received) -> bool:
        """Whether it is a message that is still missing."""
        if received.sender not in self.missing or received.round != self.round or received.message.kind != self.kind:
            return False
        return self.part is None or received.message.fields.get(PART) == self.part

    def offer(self, received: Received) -> bool:
        if not self.fits(received):
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
        self._handled: set[str] = set()
        """Kinds that go to handlers, and to nothing else."""
        self._named_only: set[str] = set(RESERVED)
        """Kinds that a wait for any kind does not get: those of handlers, and those of nodes."""
        self._finished: Collection[int] = frozenset()
        self._untaken: Counter[str] = Counter()
        """Messages that have arrived, by kinds that nothing has asked for yet."""
        self._asked: set[str] = set(RESERVED)
        self.received = Tally()
        self.sift: Callable[[int, Message], Message | None] = lambda _sender, message: message
        """Filters messages: gives what is for the algorithm, None for a message that is for the node itself."""
        self.on_full: Callable[[int, int], None] = lambda _sender, _refused: None
        """Called with a sender and its number of dropped messages, whenever that is a power of two."""
        self.heard: dict[int, float] = {}
        """When each sender was last heard of."""
        self._for_handlers: Wanted | None = None

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
                self._ask((message.kind,))
                return
        if not self._room.take(sender, message):
            refused = self._room.refused[sender]
            if refused.bit_count() == 1:
                self.on_full(sender, refused)
            if not self._makes_room(received):
                return
        if message.kind not in self._asked:
            self._untaken[message.kind] += 1
        self._arrivals += 1
        self._kept.setdefault(message.kind, {})[self._arrivals] = received
        self._places.setdefault((message.kind, message.round, sender), []).append(self._arrivals)

    def _makes_room(self, newer: Received) -> bool:
        """Drops the oldest message of the same sender, kind and part: what a slow node has not taken ages.

        Gives whether there is room now.
        """
        part = newer.message.fields.get(PART)
        for number, older in self._kept.get(newer.message.kind, {}).items():
            if older.sender == newer.sender and older.message.payload and older.message.fields.get(PART) == part:
                self._remove(newer.message.kind, number)
                return self._room.take(newer.sender, newer.message)
        return False

    @property
    def refused(self) -> int:
        """Messages dropped because their sender's room was full."""
        return self._room.refused.total()

    def gatherings(self) -> list[Gathering]:
        """All gatherings that `done` has not removed."""
        return [each for each in self._waiting if isinstance(each, Gathering)]

    def never_taken(self) -> dict[str, int]:
        """How many messages have arrived of each kind that nothing has ever asked for, by kind."""
        return dict(sorted(self._untaken.items()))

    def _ask(self, kinds: Collection[str]) -> Collection[str]:
        """The kinds to look for; none given stands for all of the algorithm's without a handler."""
        chosen = kinds or [kind for kind in (*self._kept, *self._untaken) if kind not in self._named_only]
        for kind in chosen:
            if len(self._asked) < MOST_MESSAGES:
                self._asked.add(kind)
            self._untaken.pop(kind, None)
        return chosen

    def take(self, kinds: Collection[str], sender: int | None = None) -> Received | None:
        """The longest waiting message (of some kinds, of one sender), if there is one."""
        first = [
            (number, kind) for kind in self._ask(kinds) for number in self._first_of(self._kept.get(kind, {}), sender)
        ]
        if not first:
            return None
        number, kind = min(first)
        return self._remove(kind, number)

    def _first_of(self, kept: Mapping[int, Received], sender: int | None) -> Iterator[int]:
        fitting = (number for number, received in kept.items() if sender in (None, received.sender))
        return islice(fitting, 1)

    def take_all(self, kinds: Collection[str], sender: int | None = None) -> list[Received]:
        """All messages (of some kinds, of one sender), in the order of arrival; those of one instant by rank."""
        found = []
        while (received := self.take(kinds, sender)) is not None:
            found.append(received)
        return sorted(found, key=arrival)

    def discard_before(self, kind: str, round_: int) -> list[Received]:
        """Drops and returns the messages older than a round."""
        self._ask((kind,))
        old = [number for number, received in self._kept.get(kind, {}).items() if received.round < round_]
        return [self._remove(kind, number) for number in old]

    def want(self, kinds: Collection[str], sender: int | None = None) -> Wanted:
        """Begins to wait for the next message (of some kinds, of one sender): None comes from one that has finished.

        The caller awaits its future, then calls `done`.
        """
        wanted = Wanted(kinds, sender, self._named_only)
        here = self.take(kinds, sender)
        if here is not None:
            wanted.offer(here)
        elif sender in self._finished:
            wanted.give_up()
        self._waiting.append(wanted)
        return wanted

    def finished(self, ranks: Collection[int]) -> None:
        """Nodes that send nothing any more, and of which everything has arrived."""
        self._finished = ranks
        for waiting in self._waiting:
            if isinstance(waiting, Wanted) and waiting.sender in ranks:
                waiting.give_up()

    def keep_for_handlers(self, kind: str) -> None:
        """From now on messages of this kind, those here included, are for `for_handlers` alone."""
        self._handled.add(kind)
        self._named_only.add(kind)
        if self._for_handlers is not None and (here := self.take((kind,))) is not None:
            self._for_handlers.offer(here)

    async def for_handlers(self) -> Received:
        """The next message of the kinds that handlers have, known now or added later; one caller waits at a time."""
        if (here := self.take(self._handled)) is not None:
            return here
        wanted = self._for_handlers = Wanted(self._handled)
        self._waiting.append(wanted)
        try:
            received = await wanted.future
        finally:
            self._for_handlers = None
            self.done(wanted)
        assert received is not None  # noqa: S101 - nothing gives this wait up
        return received

    def take_for_handlers(self) -> list[Received]:
        """What has arrived for handlers besides."""
        return self.take_all(self._handled)

    def gather(
        self, kind: str, round_: int, senders: Iterable[int], enough: int | None = None, part: int | None = None
    ) -> Gathering:
        """Begins to collect one message from each sender. The caller awaits its future, then calls `done`."""
        self._ask((kind,))
        gathering = Gathering(kind, round_, senders, enough, part)
        for sender in sorted(gathering.missing):
            numbers = self._places.get((kind, round_, sender), ())
            first = next((number for number in numbers if gathering.fits(self._kept[kind][number])), None)
            if first is not None:
                gathering.offer(self._remove(kind, first))
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
