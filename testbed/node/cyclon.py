"""Decentralised peer sampling: nodes shuffle their views of each other beside their work.

Takes a node and its `View`, sends and answers messages over the emulated network. The exchange itself is in
`cyclon_view`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.node.cyclon_view import Entry, View
from testbed.node.kinds import SHUFFLE_VIEWS, VIEWS_SHUFFLED
from testbed.node.messages import Message, Received
from testbed.node.recipients import some_of
from testbed.node.state import NOTHING, State, UnusableState
from testbed.plan.model import PlannedViews

if TYPE_CHECKING:
    from testbed.node.node import Node

_OLDEST = 1 << 31
"""Ages from this one on are not believed: they would grow beyond what a message can hold."""


class Cyclon:
    """One node's part in peer sampling, from the start of its work to its end.

    A node whose work has ended answers no more, and the others forget it. It is not told to them as a neighbour either,
    so there is nothing that its view would still be needed for.
    """

    def __init__(self, node: Node, planned: PlannedViews, degree: int, state: State = NOTHING) -> None:
        """`state` is that of before the node went down. Raises UnusableState."""
        self._node = node
        self._planned = planned
        self._degree = degree
        self._random = node.random("views")
        self._choosing = node.random("topology")
        self._chosen: tuple[int, tuple[int, ...]] | None = None
        """A round, and its neighbours."""
        self._shuffles = 0
        self._view = View(node.rank, planned.size, planned.shuffle, self._random, self._entries_of(state))

    def begin(self) -> None:
        """Shuffles from now on, as long as the node works."""
        if not self._view.entries:
            self._view.fill(self._first())
        self._node.spawn(self._shuffle_every_period())
        self._node.spawn(self._answer())

    def neighbours(self, round_: int) -> tuple[int, ...]:
        """Random nodes of the view, ascending: the same ones for the whole round."""
        if self._chosen is None or self._chosen[0] != round_:
            known = [entry.rank for entry in self._view.entries]
            drawn = some_of(known, self._node.finished_peers, self._degree, self._choosing)
            self._chosen = round_, tuple(sorted(drawn))
        return self._chosen[1]

    def state(self) -> State:
        """The view, to be restored after a crash."""
        entries = self._view.entries
        return {"ranks": [entry.rank for entry in entries], "ages": [entry.age for entry in entries]}

    def _first(self) -> list[int]:
        """The next node on a ring of all, and random ones: a connected overlay, and one that is random already.

        Only few rounds pass while a long ring would become random.
        """
        learners = self._node.learners
        at = learners.index(self._node.rank)
        around = [rank for rank in learners[at + 1 :] + learners[:at] if rank not in self._node.finished_peers]
        return around[:1] + self._random.sample(around[1:], min(len(around[1:]), max(0, self._planned.size - 1)))

    async def _shuffle_every_period(self) -> None:
        await self._node.sleep(self._planned.period_s * self._random.random())
        while True:
            self._ask()
            await self._node.sleep(self._planned.period_s)

    def _ask(self) -> None:
        self._view.forget(self._node.finished_peers)
        asked = self._view.ask()
        if asked is None:  # all that it knew are gone: it begins anew, as at the start
            self._view.fill(self._first())
            asked = self._view.ask()
        if asked is not None:
            partner, entries = asked
            self._node.post([partner], _message(SHUFFLE_VIEWS, self._shuffles, entries))
            self._shuffles += 1

    async def _answer(self) -> None:
        while True:
            for received in await self._node.receive_all_any_kind([SHUFFLE_VIEWS, VIEWS_SHUFFLED]):
                entries = self._entries_in(received)
                if received.message.kind == VIEWS_SHUFFLED:
                    self._view.answered(received.sender, entries)
                else:
                    answer = self._view.answer(received.sender, entries)
                    self._node.post([received.sender], _message(VIEWS_SHUFFLED, received.round, answer))

    def _entries_in(self, received: Received) -> list[Entry]:
        """The entries of a message. What is none, and what is too much, is left out."""
        fields, learners = received.message.fields, set(self._node.learners)
        ranks, ages = (_whole_numbers(fields.get(name)) for name in ("ranks", "ages"))
        pairs = list(zip(ranks, ages, strict=False))[: self._planned.shuffle]
        return [Entry(rank, age) for rank, age in pairs if rank in learners and age < _OLDEST]

    def _entries_of(self, state: State) -> list[Entry]:
        """The entries of a state; none of an empty one."""
        if not state:
            return []
        ranks, ages = (_whole_numbers(state.get(name)) for name in ("ranks", "ages"))
        known = set(ranks) <= set(self._node.learners) - {self._node.rank}
        if not known or not len(set(ranks)) == len(ranks) == len(ages) <= self._planned.size:
            raise UnusableState("the view of other nodes belongs to another run")
        return [Entry(*each) for each in zip(ranks, ages, strict=True)]


def _message(kind: str, number: int, entries: Sequence[Entry]) -> Message:
    """Entries as they are sent: a message without payload, all of which counts as control."""
    return Message(kind, number, {"ranks": [entry.rank for entry in entries], "ages": [entry.age for entry in entries]})


def _whole_numbers(value: object) -> list[int]:
    """The numbers of a list from 0 on; none of anything else."""
    found = value if isinstance(value, list) else []
    return found if all(type(each) is int and each >= 0 for each in found) else []
