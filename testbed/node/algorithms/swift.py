"""SWIFT: wait-free averaging with the neighbours of a fixed overlay.

Bornstein, Rabbani, Wang, Bedi and Huang, "SWIFT: Rapid Decentralized Federated Learning via Wait-Free Model
Communication", ICLR 2023 (arXiv 2210.14026). In an iteration a node broadcasts its model, trains, averages its model
with the newest ones of its neighbours, and only then adds the change by training, which was computed at the model
before. No node waits for another. Weights are those of CCS, so that faster nodes have no more influence.

The communication set C_s: models are broadcast in every iteration, and averaged in every one (C_0, `steps_between` 1),
in every second one (C_1), and so on. With `memory` a node keeps the last model of each neighbour, at first the one that
all start from. Without, it averages with those that came since. The weight of a model that is missing is the node's
own; with `boost`, all other weights are raised instead, so that they add up to 1.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from testbed.node.algorithm import ALL_NEIGHBOURS, Algorithm
from testbed.node.ccs_weights import ccs_weights
from testbed.node.kinds import MODEL
from testbed.node.messages import Message, Received
from testbed.node.node import Node
from testbed.node.state import NOTHING, State, UnusableState
from testbed.node.talking import PeerMissing
from testbed.node.tickets import Ticket, TicketState
from testbed.node.world import Vector
from testbed.plan.overlay_graph import NoGraph

DONE = "done"
"""The kind of a note to neighbours: all iterations of its sender are done."""
LIFE = "life"
"""The field in models of a node that came back: since when it lives. Its iterations may begin with an earlier one."""
_LAST = "last "


class Swift(Algorithm):
    """Broadcast, train, average, add the change."""

    waits = False
    sends_to = ALL_NEIGHBOURS

    def __init__(self, steps_between: int = 1, memory: bool = True, boost: bool = False) -> None:
        if steps_between < 1:
            raise ValueError(f"steps_between is at least 1, not {steps_between}")
        self.steps_between = steps_between
        self.memory = memory
        self.boost = boost
        self._models: dict[int, Vector] = {}
        """The last known model of each neighbour."""
        self._versions: dict[int, tuple[float, int]] = {}
        """Of these: the life of its node, and the iteration."""
        self._heard: dict[int, float] = {}
        """When a neighbour was last heard."""
        self._done: set[int] = set()
        """Neighbours that have done all their iterations."""
        self._unsent: list[Ticket] = []
        """Models that have not left, or had not when the last one was broadcast."""

    async def run(self, node: Node) -> None:
        weights = _weights_of(node)
        if self.memory and not node.came_back:
            self._models = {rank: node.model.copy() for rank in weights} | self._models
        self._heard = dict.fromkeys(weights, began := node.now())
        async for round_ in node.rounds():
            self._broadcast(node, weights, began)
            change = await node.trained_change()
            if (round_ + 1) % self.steps_between == 0:
                await self._listen(node)
                self._average(node, weights)
            node.model += change
        await self._stay(node, began)

    def state(self) -> State:
        return {f"{_LAST}{rank}": model for rank, model in self._models.items()} if self.memory else NOTHING

    def restore(self, state: State) -> None:
        for name, model in state.items():
            rank = name.removeprefix(_LAST)
            if not isinstance(model, np.ndarray) or model.dtype != np.float32 or not rank.isdecimal():
                raise UnusableState(f"`{name}` is no model of a neighbour")
            self._models[int(rank)] = model

    def _broadcast(self, node: Node, to: Iterable[int], began: float) -> None:
        message = self.sharing.encode(node.model, node.round)
        if node.came_back:
            message = message.with_fields(**{LIFE: began})
        self._unsent = [*filter(_is_unsent, self._unsent), *node.send(to, message)]

    async def _listen(self, node: Node) -> None:
        """Takes what has arrived. Of each neighbour the latest iteration counts, whatever came last."""
        await node.sleep(0.0)  # what arrives at this very instant counts, in whatever order nodes are taken
        for received in node.newest_of_each(MODEL, lambda each: (each.sender,)):
            rank, version = received.sender, _version(received)
            self._heard[rank] = received.t
            if version >= self._versions.get(rank, version):  # final models come again and again
                self._versions[rank] = version
                self._models[rank] = self.sharing.updated(self._models.get(rank, node.model), received)
        self._done.update(each.sender for each in node.arrived(DONE))

    def _average(self, node: Node, weights: dict[int, float]) -> None:
        """x = w_ii x + sum of w_ij x_j"""
        left_out = self._silent(node)
        used = {rank: weights[rank] for rank in sorted(self._models) if rank not in left_out}
        own, scale = 1.0 - sum(used.values()), 1.0
        if self.boost:
            own = 1.0 - sum(weights.values())
            scale = 1.0 / (own + sum(used.values()))
        node.model *= np.float32(own * scale)
        for rank, weight in used.items():
            node.model += np.float32(weight * scale) * self._models[rank]
        if not self.memory:
            self._models.clear()

    def _silent(self, node: Node) -> set[int]:
        """Neighbours that are left out as `missing` says; they may send again."""
        missing = node.plan.experiment.missing
        silent = {
            rank
            for rank, heard in self._heard.items()
            if node.now() - heard > missing.after_s and rank not in self._done
        }
        if silent and missing.then == "abort":
            names = ", ".join(node.plan.ranks[rank] for rank in sorted(silent))
            raise PeerMissing(f"{names} sent nothing for {missing.after_s:g} s")
        return silent if missing.then == "skip" else set()

    async def _stay(self, node: Node, began: float) -> None:
        """Broadcasts the final model, as often as this node iterated, until all neighbours are done as well.

        One that is silent for as long as `missing` says is not waited for. One that is slow, or came back, finds a
        model to average with.
        """
        finished, patience_s = node.now(), node.plan.experiment.missing.after_s
        rounds = node.rounds_done - node.first_round
        pause_s = min(patience_s, (finished - began) / rounds) if rounds else patience_s
        node.round = node.rounds_done
        node.flush()  # earlier models are of no use now
        notes = node.send(self._heard, Message(DONE, node.round))
        next_s = finished
        while True:
            await self._listen(node)
            waiting = [
                rank
                for rank, heard in self._heard.items()
                if rank not in self._done
                and rank not in node.finished_peers
                and node.now() - max(heard, finished) <= patience_s
            ]
            if not waiting:
                break
            if node.now() >= next_s:
                copies = {each.to for each in filter(_is_unsent, self._unsent) if each.message.round == node.round}
                self._broadcast(node, [rank for rank in waiting if rank not in copies], began)
                next_s = node.now() + pause_s
            received = await node.receive(DONE, timeout_s=next_s - node.now())
            if received is not None:
                self._done.add(received.sender)
        node.withdraw([*self._unsent, *(note for note in notes if note.to not in self._done)])


def _weights_of(node: Node) -> dict[int, float]:
    """The weights of this node's neighbours, by rank, ascending."""
    table = node.plan.overlay.neighbours
    if table is None:
        raise NoGraph(
            "swift averages with the same neighbours all the time, and this overlay is another in every round"
        )
    return dict(sorted(ccs_weights(node.learners, table)[node.rank].items()))


def _is_unsent(ticket: Ticket) -> bool:
    return ticket.state in (TicketState.WAITING, TicketState.UNDER_WAY)


def _version(received: Received) -> tuple[float, int]:
    life = received.message.fields.get(LIFE, 0.0)
    return (life if isinstance(life, float) else 0.0), received.round
