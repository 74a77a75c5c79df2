"""The members of a run as one node knows them: who was active lately, and who answers.

Takes a node, gives ranks. A view has, for each member, the latest round of which the node has heard that it was active.
Pings and their answers carry the whole view of their sender, and views are merged by the maximum: so all views become
the same, some time after nothing changes any more. They are messages without a payload, which count as control bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from testbed.node.active_nodes import active_nodes
from testbed.node.messages import Field, Message, Received, UnusableModel
from testbed.node.node import Node

PING = "ping"
PONG = "pong"
"""The answer to a ping, with the same number as its round."""


class Members:
    """The view of one node, and its pings."""

    def __init__(
        self,
        node: Node,
        ping_timeout_s: float,
        inactivity: int,
        about: Callable[[], Mapping[str, Field]],
        answer: Callable[[Received], Mapping[str, Field]],
    ) -> None:
        """`about` gives the fields of this node's pings, `answer` those of its answer to one."""
        self._node = node
        self._timeout_s = ping_timeout_s
        self._inactivity = inactivity
        self._about = about
        self._answer = answer
        self._active = dict.fromkeys(node.learners, 0)
        self._pings = 0
        self.round = 0
        """The latest round that this node has heard of."""
        node.on(PING, self._pong)

    def heard(self, rank: int, round_: int) -> None:
        """This member is active, and knows of a round."""
        self.round = max(self.round, round_)
        self._active[self._node.rank] = self.round
        if rank in self._active:
            self._active[rank] = self.round

    def order(self, round_: int) -> list[int]:
        """All members in the order in which they are asked for a round: by a hash, those active lately first."""
        node = self._node
        ranks = active_nodes(node.plan.seed, node.learners, round_, len(node.learners))
        there = [rank for rank in ranks if rank not in node.finished_peers]
        return sorted(there, key=lambda rank: rank != node.rank and self._active[rank] < round_ - self._inactivity)

    async def online(self, round_: int, count: int, without: Collection[int] = ()) -> list[int]:
        """The first `count` members in the order of a round that answer a ping; this node needs none."""
        found: list[int] = []
        left = [rank for rank in self.order(round_) if rank not in without]
        while left and len(found) < count:
            batch, left = left[: count - len(found)], left[count - len(found) :]
            answers = await self.ping(batch)
            found += [rank for rank in batch if rank == self._node.rank or rank in answers]
        return found

    async def ping(self, ranks: Collection[int], **more: Field) -> dict[int, Received]:
        """The answers of those that answer in time."""
        others = [rank for rank in ranks if rank != self._node.rank]
        if not others:
            return {}
        self._pings += 1
        self._node.send(others, self._with_view(PING, self._pings, {**self._about(), **more}))
        found = await self._node.gather(others, self._pings, PONG, within_s=self._timeout_s)
        for each in found:
            self._merge(each)
        return {each.sender: each for each in found}

    def _pong(self, ping: Received) -> None:
        self._merge(ping)
        self._node.send(ping.sender, self._with_view(PONG, ping.round, self._answer(ping)))

    def _with_view(self, kind: str, number: int, fields: Mapping[str, Field]) -> Message:
        view = np.array([self._active[rank] for rank in self._node.learners], np.int32)
        return Message(kind, number, fields, metadata=(view,))

    def _merge(self, received: Received) -> None:
        view = received.message.metadata[0] if received.message.metadata else None
        if view is None or view.dtype != np.int32 or view.shape != (len(self._active),):
            raise UnusableModel(received.sender, "a ping without the view of its sender")
        for rank, round_ in zip(self._node.learners, view.tolist(), strict=True):
            self._active[rank] = max(self._active[rank], round_)
        self.heard(received.sender, max(self._active.values()))

    async def all_gone(self) -> None:
        """Waits until all other members have finished or left."""
        while not set(self._node.others) <= self._node.finished_peers:
            for rank in self._node.others:
                await self._node.until_gone(rank)
