"""The turns of a node: how a model goes from one node to the next, round after round, without being lost.

Takes a node and the schedule of its run, gives the node's turns. A model has a position among the nodes that work in a
round, and goes to the node of that position in the next round. The node that has handed a model on keeps it until the
other one says that it has done so, too. If that node is silent for too long, or has left, the model goes to the node
after it. So one crash loses no model, and costs a timeout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count
from math import inf

from testbed.node.active_nodes import active_nodes
from testbed.node.messages import Message, Received, UnusableModel
from testbed.node.node import Node
from testbed.node.sharing.base import whole
from testbed.node.state import State, vector_in, whole_number_in, whole_numbers_in
from testbed.node.talking import PeerMissing
from testbed.plan.overlay_graph import Graph

HANDED = "handed-on"
"""A model, for the node that has its position in the round."""
DONE = "turn-done"
"""The answer, once that node has handed it on."""
SKIPPED = "turn-skipped"
"""To a node that did not answer in time: its model went to the next one."""
BACK = "turn-again"
"""From a node that came back, to all others: what it was handed before may be lost."""
OVER = "turn-none"
"""From a node that has no turn left, to those that it may still answer: they need not answer it."""
LOOK = "turn-look"
"""From a node to itself: another node has finished or left."""

KINDS = (HANDED, DONE, SKIPPED, OVER, LOOK)

_TURN = 2
"""A turn may last so many times the timeout for silent peers: its node may wait for one itself."""
_ROUND = 3
"""A round may last so many times that timeout, before a node goes on with a model of its own."""
_ALMOST_S = 1e-6
"""Alarms ring this close to the time that was meant, by rounding."""


@dataclass(frozen=True)
class Turn:
    """One node's work in one round."""

    round: int
    position: int
    neighbours: tuple[int, ...]
    """The nodes with which it averages."""
    received: Received | None
    """The model to begin with; None: the one that the node has."""


@dataclass
class _Kept:
    """A model that a node was handed, until that node is done with its turn."""

    position: int
    message: Message
    until_s: float
    is_again: bool = False
    """It may have been handed on in the node's former life."""


class Turns:
    """One node's turns, in the order of their rounds."""

    def __init__(self, node: Node, graph: Graph, state: State) -> None:
        """`graph`: who averages with whom, by position. `state`: that of the node's former life, or nothing."""
        self._node = node
        self._graph = graph
        self._last = whole_number_in(state, "last") if state else -1
        self._since_s = node.now()
        """When the last turn was over."""
        self._handed: dict[int, Received] = {}
        """By round: models for turns to come."""
        self._past: set[int] = set()
        """Rounds of turns that others have given up, or that were over before the node came back."""
        self._kept: dict[tuple[int, int], _Kept] = {}
        """By rank and round."""
        self._returning: dict[int, set[int]] = {}
        """By round of those: neighbours that may still wait for this node."""
        self._over: set[int] = set()
        """Nodes that have no turn left."""
        self._skipped: set[tuple[int, int]] = set()
        """Turns of others that were given up: ranks and rounds."""
        self._watched: set[int] = set()
        self._is_over = False
        self._missing = node.plan.experiment.missing
        self._waits_on = self._missing.then == "wait"
        self._may_be_lost = not self._waits_on
        """Models may be lost: nodes are left behind, or have come back without memory."""
        node.on(BACK, self._answer)
        if node.came_back:
            self._come_back(state)

    async def next(self) -> Turn | None:
        """The next turn, once its model is here; None after the last one, when all others have handed on theirs."""
        arrived = self._node.arrived(*KINDS)
        while True:
            for each in arrived:
                self._take(each)
            self._look_after_kept()
            round_ = next(self._to_come(), None)
            self._return_models(before=round_)
            if round_ is None and not self._kept and not self._is_waited_for():
                return None
            if round_ is not None and (turn := self._turn_at(round_)) is not None:
                self._last = max(turn.round, self._last)
                self._kept.pop((self._node.rank, turn.round), None)
                return turn
            until_s = min([self._until_s(round_), *(each.until_s for each in self._kept.values())])
            timeout_s = None if until_s == inf else max(0.0, until_s - self._node.now())
            arrived = await self._node.receive_all(*KINDS, timeout_s=timeout_s)

    def hand_on(self, turn: Turn) -> None:
        """Hands the node's model to the node of its position in the next round."""
        self._hand(turn.position, turn.round + 1, whole(self._node.model, turn.round + 1))

    def end(self, turn: Turn) -> None:
        """Ends a turn, after its snapshot was saved: from now on, this node keeps the model."""
        if turn.received is not None:
            self._node.send(turn.received.sender, Message(DONE, turn.round))
        self._since_s = self._node.now()

    def state(self) -> State:
        """The last round of the node's model, and the models that it keeps."""
        kept = list(self._kept.items())
        state: dict[str, object] = {"last": self._last}
        state["ranks"], state["rounds"] = [rank for (rank, _), _ in kept], [round_ for (_, round_), _ in kept]
        state["positions"] = [each.position for _, each in kept]
        return {**state, **{f"model {at}": each.message.payload[0] for at, (_, each) in enumerate(kept)}}

    def _come_back(self, state: State) -> None:
        """Asks for models that were lost, and hands on again those that this node kept."""
        self._may_be_lost = True
        self._node.send(self._node.others, Message(BACK, self._last + 1))
        if not state:
            return
        # What it sent in its last turns may be lost as well, and a neighbour that far behind wait for it.
        self._past.update(
            round_
            for round_ in range(max(0, self._last - 2 * len(self._graph)), self._last + 1)
            if self._node.rank in self._active_in(round_)
        )
        numbers = (whole_numbers_in(state, name) for name in ("ranks", "rounds", "positions"))
        for at, (rank, round_, position) in enumerate(zip(*numbers, strict=True)):
            model = vector_in(state, f"model {at}", self._node.model.size)
            self._send_kept(rank, round_, _Kept(position, whole(model, round_), self._turn_until_s(), is_again=True))

    # -- whose turn it is ------------------------------------------------------------------------------------------

    def _active_in(self, round_: int) -> tuple[int, ...]:
        return active_nodes(self._node.plan.seed, self._node.learners, round_, len(self._graph))

    def _neighbours_in(self, round_: int) -> tuple[int, ...]:
        active = self._active_in(round_)
        return tuple(active[position] for position in self._graph[active.index(self._node.rank)])

    def _to_come(self) -> Iterator[int]:
        """Rounds of this node's turns to come: without memory round 0, and then as the others have got on."""
        stop = self._node.plan.experiment.stop.rounds
        later = self._last + 1 if self._last >= 0 else max(1, self._node.first_round)
        rounds = count(later) if stop is None else range(later, stop)
        for round_ in chain([0] if self._last < 0 else [], rounds):
            if round_ not in self._past and self._node.rank in self._active_in(round_):
                yield round_

    def _turn_at(self, round_: int) -> Turn | None:
        """The turn that can begin, if one can; `round_` is that of the next turn by the schedule."""
        round_ = min([round_, *self._handed])
        if round_ and round_ not in self._handed:  # all begin round 0 with models of their own
            if self._node.now() < self._until_s(round_) - _ALMOST_S:
                return None
            self._missed("no model came", round_)  # it is lost: its position goes on with this node's own
        position = self._active_in(round_).index(self._node.rank)
        return Turn(round_, position, self._neighbours_in(round_), self._handed.pop(round_, None))

    def _until_s(self, round_: int | None) -> float:
        """How long to wait for the model of a round: not long any more if one of a later round is here."""
        if not round_ or not self._may_be_lost:
            return inf
        if self._handed:
            return min(each.t for each in self._handed.values()) + self._missing.after_s
        return self._since_s + (round_ - max(self._last, self._node.first_round - 1)) * _ROUND * self._missing.after_s

    # -- messages --------------------------------------------------------------------------------------------------

    def _take(self, received: Received) -> None:
        sender, round_, kind = received.sender, received.round, received.message.kind
        if kind == HANDED:
            self._take_model(received)
        elif kind == DONE:
            self._kept.pop((sender, round_), None)
        elif kind == SKIPPED:
            self._past.add(round_)
            self._handed.pop(round_, None)
        elif kind == OVER:
            self._over.add(sender)

    def _take_model(self, received: Received) -> None:
        sender, round_ = received.sender, received.round
        if round_ <= self._last or round_ in self._handed or round_ in self._past:
            self._node.send(sender, Message(DONE, round_))
        elif self._node.rank in self._active_in(round_):
            self._handed[round_] = received
        else:
            raise UnusableModel(sender, f"it is for round {round_}, in which this node does not work")

    def _answer(self, back: Received) -> None:
        """Hands a node that came back its models again, and tells it which of its turns were given up.

        That happens at once: in its own turn, this node may wait for the other one.
        """
        for (rank, _), kept in self._kept.items():
            if rank == back.sender:
                kept.until_s = self._turn_until_s()
                self._node.send(rank, kept.message)
        for rank, round_ in sorted(self._skipped):
            if rank == back.sender and round_ >= back.round:
                self._node.send(rank, Message(SKIPPED, round_))
        self._may_be_lost = True
        self._node.send(self._node.rank, Message(LOOK, 0))

    # -- models that others work with ------------------------------------------------------------------------------

    def _hand(self, position: int, round_: int, message: Message) -> None:
        stop = self._node.plan.experiment.stop.rounds
        if stop is None or round_ < stop:
            to = self._active_in(round_)[position]
            self._send_kept(to, round_, _Kept(position, message, self._turn_until_s()))

    def _return_models(self, before: int | None) -> None:
        """Where nodes wait for ever, neighbours may wait for this node's model of a turn that was given up."""
        for round_ in sorted(self._past - self._returning.keys()) if self._waits_on else ():
            if before is None or round_ < before:
                neighbours = self._neighbours_in(round_)
                self._returning[round_] = set(neighbours)
                for rank in neighbours:
                    self._node.spawn(self._return_model(rank, round_))

    async def _return_model(self, rank: int, round_: int) -> None:
        """Sends a neighbour its own model back: averaging with that changes nothing."""
        for received in await self._node.gather([rank], round_):
            self._node.send(rank, received.message)
        self._returning[round_].discard(rank)
        self._node.send(self._node.rank, Message(LOOK, 0))

    def _is_waited_for(self) -> bool:
        """After this node's last turn: whether a neighbour may wait for it in a turn of its own."""
        waiting = set[int]().union(*self._returning.values()) - self._over - self._node.finished_peers
        if not self._is_over:
            self._is_over = True
            self._node.send(sorted(waiting), Message(OVER, self._last))
            for rank in sorted(waiting - self._watched):
                self._watch_from_now(rank)
        return bool(waiting)

    def _send_kept(self, to: int, round_: int, kept: _Kept) -> None:
        kept.message = Message(HANDED, round_, payload=kept.message.payload)
        self._kept[to, round_] = kept
        self._node.send(to, kept.message)
        if to == self._node.rank:
            kept.until_s = inf
        elif to not in self._watched:
            self._watch_from_now(to)

    def _turn_until_s(self) -> float:
        return inf if self._waits_on else self._node.now() + _TURN * self._missing.after_s

    def _watch_from_now(self, rank: int) -> None:
        self._watched.add(rank)
        self._node.spawn(self._watch(rank))

    async def _watch(self, rank: int) -> None:
        """Makes the node look at what it keeps for another one when that one has finished or left."""
        await self._node.until_gone(rank)
        self._watched.discard(rank)
        self._node.send(self._node.rank, Message(LOOK, 0))

    def _look_after_kept(self) -> None:
        """Hands models past nodes that do not answer in time, or have left."""
        for (rank, round_), kept in sorted(self._kept.items(), key=lambda item: item[0]):
            has_ended = rank in self._node.finished_peers
            if not has_ended and self._node.now() < kept.until_s - _ALMOST_S:
                continue
            del self._kept[rank, round_]
            if has_ended and kept.is_again:
                continue  # it has handed the model on before this node came back
            self._missed(f"{self._node.plan.ranks[rank]} did not hand on its model", round_)
            self._skipped.add((rank, round_))
            self._node.send(rank, Message(SKIPPED, round_))
            self._hand(kept.position, round_ + 1, kept.message)

    def _missed(self, what: str, round_: int) -> None:
        then = self._missing.then
        self._node.note("peer-missing", f"round {round_}: {what}: {then}")
        if then == "abort":
            raise PeerMissing(f"round {round_}: {what}")
