"""Watches the messages of a run in virtual time: what is posted, what arrives, and what is averaged.

Replaces functions of `testbed.node` for the duration of a block; gives words about all that is wrong. An arrival is one
message that a mailbox was given. What reads the values of an arrival is averaging, or adopting, it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import numpy as np

from testbed.node import fragments, node
from testbed.node.life import Life
from testbed.node.mailbox import Mailbox
from testbed.node.messages import Message, Received
from testbed.node.node import Node
from testbed.node.outbox import Outbox
from testbed.node.sharing import base
from testbed.node.sharing.base import usable
from testbed.node.snapshots import save_snapshot
from testbed.node.state import State
from testbed.node.tickets import Ticket
from testbed.node.world import Vector

_Posted = tuple[int, int, bytes, int]
"""Sender, recipient, header and checksum of the arrays."""
_Exchanged = tuple[int, str, tuple[int, ...]]
"""Sender, kind and number of a message of an exchange that may come more than once."""
NUMBER = "number"
"""The field of exchanges whose messages are repeated: each number is averaged once on each side."""


class _Life:
    """One life of a node."""

    def __init__(self, rank: int, node: Node, exchanged: set[_Exchanged]) -> None:
        self.rank = rank
        self.node = node
        self.exchanged = exchanged
        """What is averaged in its present model."""


_LIFE: ContextVar[_Life] = ContextVar("life")
"""Whose code is running."""


class Witness:
    """What was seen in one run."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.posted: Counter[_Posted] = Counter()
        self.arrived: Counter[_Posted] = Counter()
        self.posted_bytes = self.arrived_bytes = self.averaged = 0
        self.lives: list[_Life] = []
        self._by_mailbox: dict[int, _Life] = {}
        self._by_outbox: dict[int, _Life] = {}
        self._kept: list[Received] = []
        """All arrivals, so that no identity is used twice."""
        self._here: Counter[tuple[int, int]] = Counter()
        """How often an array has arrived, by the identities of the mailbox and of the array."""
        self._averaged: Counter[tuple[int, int]] = Counter()
        """The same of what was averaged. An algorithm may change the fields of what it received, not the arrays."""
        self._saved: dict[Path, set[_Exchanged]] = {}
        """By folder: what is averaged in the model of the newest snapshot."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Sees what happens in this process."""
        with (
            patch.object(Node, "__init__", self._seen_node(Node.__init__)),
            patch.object(Life, "live", self._seen_live(Life.live)),
            patch.object(Outbox, "post", self._seen_post(Outbox.post)),
            patch.object(Mailbox, "put", self._seen_put(Mailbox.put)),
            patch.object(Mailbox, "_keep", self._seen_keep(Mailbox._keep)),
            patch.object(base, "usable", self._seen_usable(usable)),
            patch.object(fragments, "usable", self._seen_usable(usable)),
            patch.object(node, "save_snapshot", self._seen_snapshot),
        ):
            yield

    def conclude(self) -> list[str]:
        """All that was wrong, after the end of the run."""
        for message, count in self.arrived.items():
            if count > self.posted[message]:
                sender, to, header, _ = message
                self.wrong.append(
                    f"{count} times a message from {sender} to {to} arrived, posted "
                    f"{self.posted[message]} times: {header!r:.120}"
                )
        for life in self.lives:
            if not np.isfinite(life.node.model).all():
                self.wrong.append(f"the model of node {life.rank} is not finite")
        return self.wrong

    def _seen_node(self, original: Callable[..., None]) -> Callable[..., None]:
        def init(made: Node, *words: Any, **named: Any) -> None:
            original(made, *words, **named)
            folder, snapshot = named.get("snapshots"), named.get("snapshot")
            saved = self._saved.get(folder, set()) if folder is not None and snapshot is not None else set()
            life = _Life(made.rank, made, set(saved))
            self.lives.append(life)
            self._by_mailbox[id(made.mailbox)] = self._by_outbox[id(made.outbox)] = life

        return init

    def _seen_live(self, original: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def live(life: Life, *words: Any) -> object:
            _LIFE.set(self._by_mailbox[id(life.node.mailbox)])  # also for all tasks that it starts
            return await original(life, *words)

        return live

    def _seen_post(self, original: Callable[..., Ticket]) -> Callable[..., Ticket]:
        def post(outbox: Outbox, to: int, message: Message) -> Ticket:
            self.posted[_identity(self._by_outbox[id(outbox)].rank, to, message)] += 1
            self.posted_bytes += message.nbytes
            return original(outbox, to, message)

        return post

    def _seen_put(self, original: Callable[..., None]) -> Callable[..., None]:
        def put(mailbox: Mailbox, sender: int, message: Message, *, counted: bool = True) -> None:
            if counted:
                self.arrived[_identity(sender, self._by_mailbox[id(mailbox)].rank, message)] += 1
                self.arrived_bytes += message.nbytes
            original(mailbox, sender, message, counted=counted)

        return put

    def _seen_keep(self, original: Callable[..., None]) -> Callable[..., None]:
        def keep(mailbox: Mailbox, received: Received) -> None:
            self._kept.append(received)
            self._here.update((id(mailbox), id(buffer)) for buffer in received.message.payload)
            original(mailbox, received)

        return keep

    def _seen_usable(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def seen(received: Received, read: Callable[[Message], Any]) -> Any:
            self._average(received)
            return original(received, read)

        return seen

    def _average(self, received: Received) -> None:
        life = _LIFE.get()
        if received.sender == life.rank:  # a part of its own model
            return
        self.averaged += 1
        what = f"`{received.message.kind}` of round {received.round} from {received.sender}"
        for buffer in received.message.payload:
            place = (id(life.node.mailbox), id(buffer))
            self._averaged[place] += 1
            if self._averaged[place] > self._here[place]:
                self.wrong.append(f"node {life.rank} averages {what} {self._averaged[place]} times")
        number = received.message.fields.get(NUMBER)
        if isinstance(number, list):
            exchange = (received.sender, received.message.kind, tuple(map(int, number)))
            if exchange in life.exchanged:
                self.wrong.append(f"node {life.rank} averages {what} with the number {number} again")
            life.exchanged.add(exchange)

    def _seen_snapshot(self, folder: Path, rounds: int, vector: Vector, state: Mapping[str, State]) -> None:
        save_snapshot(folder, rounds, vector, state)
        self._saved[folder] = next(
            set(life.exchanged) for life in reversed(self.lives) if life.node._snapshots == folder
        )


def _identity(sender: int, to: int, message: Message) -> _Posted:
    checksum = 0
    for buffer in (*message.metadata, *message.payload):
        checksum = crc32(np.ascontiguousarray(buffer).data, checksum)
    return sender, to, message.header, checksum
