"""Plexus: federated learning without a server, by samples of nodes that all nodes draw alike.

Dhasade, Kermarrec, Lavoie, Pouwelse, Sharma and de Vos, "Practical Federated Learning without a Server", EuroMLSys 2025
(arXiv 2503.05509). The sample of round t is the first `sample` nodes that are online, in an order by a hash of node and
round. Each of them trains the model of the round and sends it to the aggregator: the first node online in the order of
round t + 1. When enough models are there, it sends their mean to the sample of round t + 1. With `aggregate: all`
(Conflux) there is no aggregator: models go in fragments to the whole next sample, and each node of it takes the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.node.algorithm import Algorithm
from testbed.node.collecting import Collection, count_in
from testbed.node.fragments import Fragmentation
from testbed.node.members import Members
from testbed.node.messages import Field, Message, Received, snapshot
from testbed.node.node import Node
from testbed.node.state import State, whole_number_in
from testbed.node.tickets import TicketState
from testbed.node.world import Vector

AGGREGATES = ("one", "all")
AGGREGATED = "aggregated"
"""The model that a round begins with; after the last round, the one that all end with."""
TRAINED = "trained"
"""A model, or a part of it, for the round after the one in which it was trained."""
COLLECTED = "collected"
"""To those whose models were aggregated, or came too late: nothing more is to be done in this round."""
LOOK = "all-gone"
"""From a node to itself: all others have finished or left."""

_STALLED = 2
"""So many times as long as models may take to be aggregated, nothing may be heard of a round."""
_ALMOST_S = 1e-6
"""Alarms ring this close to the time that was meant, by rounding."""


@dataclass(frozen=True)
class Turn:
    """A round that this node works in."""

    round: int
    trained: int
    """How many nodes train in it."""


class Plexus(Algorithm):
    """A node waits for the model of a round in which it is sampled; meanwhile it answers, and aggregates."""

    def __init__(
        self,
        sample: int = 13,
        success_fraction: float = 0.8,
        aggregate: str = "one",
        fragments: int = 8,
        ping_timeout: float = 5.0,
        inactivity: int = 50,
        aggregation_timeout: float = 300.0,
    ) -> None:
        if sample < 1 or fragments < 1 or inactivity < 1:
            raise ValueError("sample, fragments and inactivity are at least 1")
        if not 0.0 < success_fraction <= 1.0:
            raise ValueError(f"success_fraction is above 0 and at most 1, not {success_fraction}")
        if aggregate not in AGGREGATES:
            raise ValueError(f"aggregate is one of {', '.join(AGGREGATES)}, not {aggregate!r}")
        if ping_timeout <= 0.0 or aggregation_timeout <= 0.0:
            raise ValueError("ping_timeout and aggregation_timeout are above 0")
        self.sample = sample
        self.success_fraction = success_fraction
        self.aggregate = aggregate
        self.fragments = fragments
        self.ping_timeout_s = ping_timeout
        self.inactivity = inactivity
        self.aggregation_timeout_s = aggregation_timeout
        self._version = 0
        """The round that the node's model is for."""

    async def run(self, node: Node) -> None:
        self._node = node
        parts = self.fragments if self.aggregate == "all" else 1
        self._fragments = Fragmentation(node.model.size, parts, node.plan.seed)
        self._offer: Received | None = None
        """The aggregated model of the latest round."""
        self._collected = self._made = 0
        """The latest rounds for which others, and this node, have aggregated models."""
        self._collections: dict[int, Collection] = {}
        self._works = False
        self._progress_s = node.now()
        self._members = Members(node, self.ping_timeout_s, self.inactivity, self._about_me, self._answer)
        node.on(TRAINED, self._collect)
        node.spawn(self._notice_all_gone())
        first = self._first_turn()
        if node.came_back:
            await self._members.ping(node.others)
        while (turn := first or await self._next_turn()) is not None:
            first, self._works = None, True
            async with node.one_round(turn.round, evaluate=False):
                trained = node.model + await node.trained_change()
                await self._pass_on(turn, trained)
            self._works = False

    # -- taking part in a round --------------------------------------------------------------------------------------

    def _first_turn(self) -> Turn | None:
        """All begin with the same model: those sampled first need nothing."""
        sampled = self._members.order(0)[: self.sample]
        return Turn(0, len(sampled)) if self._node.rank in sampled and not self._node.came_back else None

    async def _next_turn(self) -> Turn | None:
        """The latest round that this node is sampled for; None when the last one is over."""
        node, stop = self._node, self._node.plan.experiment.stop.rounds
        while not self._has_offer:
            await self._listen(max(0.0, self._progress_s + self._patience_s - node.now()))
            if node.now() >= self._progress_s + self._patience_s - _ALMOST_S:
                await self._take_over()
        assert self._offer is not None  # noqa: S101 - it has one
        self.sharing.adopt(node.model, self._offer)
        self._version = self._offer.round
        await node.catch_up(self._version - 1)
        return None if self._version == stop else Turn(self._version, count_in(self._offer, "trained"))

    async def _pass_on(self, turn: Turn, model: Vector) -> None:
        """Sends a trained model to those that aggregate, until one of them has done so."""
        following = turn.round + 1
        fragments = [
            each.of_kind(TRAINED).with_fields(trained=turn.trained) for each in self._fragments.cut(model, following)
        ]
        if self.aggregate == "all":
            sampled = await self._members.online(following, self.sample)
            for each in fragments:
                self._node.send(sampled, each.with_fields(sampled=sampled))
            return
        silent: list[int] = []
        while not self._is_past(following):
            (aggregator,) = await self._members.online(following, 1, without=silent)
            if await self._is_taken(fragments[0], aggregator):
                return
            silent.append(aggregator)

    async def _is_taken(self, trained: Message, aggregator: int) -> bool:
        """Sends a model to an aggregator; False if that does not take it, or has gone."""
        was_lost, (ticket,), sent_bytes = False, self._node.send(aggregator, trained), 0
        while True:
            if await self._is_past_soon(trained.round):
                return True
            if aggregator == self._node.rank:
                continue
            if ticket.state is not TicketState.LEFT:
                if ticket.sent_bytes <= sent_bytes:
                    self._node.withdraw([ticket])
                    return False
                sent_bytes = ticket.sent_bytes
                continue
            answer = (await self._members.ping([aggregator], about=trained.round)).get(aggregator)
            if answer is None:
                return self._is_past(trained.round)
            if answer.message.fields.get("has") is not True:  # it has come back, and has lost it
                if was_lost:
                    return False
                was_lost, (ticket,), sent_bytes = True, self._node.send(aggregator, trained), 0

    def _is_past(self, round_: int) -> bool:
        """Whether the models for a round were aggregated, so far as this node knows."""
        return self._collected >= round_ or self._latest >= round_

    async def _is_past_soon(self, round_: int) -> bool:
        """The same, within the time that an answer may take."""
        until_s = self._node.now() + self.ping_timeout_s
        while not self._is_past(round_) and (left_s := until_s - self._node.now()) > _ALMOST_S:
            await self._listen(left_s)
        return self._is_past(round_)

    async def _listen(self, timeout_s: float) -> None:
        for each in await self._node.receive_all(AGGREGATED, COLLECTED, LOOK, timeout_s=timeout_s):
            if each.message.kind == LOOK:
                self._progress_s = self._node.now() - self._patience_s
                continue
            self._progress(each)
            if each.message.kind == COLLECTED:
                self._collected = max(self._collected, each.round)
            elif self._offer is None or each.round > self._offer.round:
                self._offer = each

    # -- aggregating -------------------------------------------------------------------------------------------------

    def _collect(self, received: Received) -> None:
        """Keeps a trained model; the mean is taken when enough are there, or after a time."""
        round_ = received.round
        self._progress(received)
        if self._latest >= round_:
            self._tell_collected([received.sender], round_)
            return
        if round_ not in self._collections:
            self._collections[round_] = Collection(self._fragments)
            self._node.spawn(self._close_late(round_))
        collection = self._collections[round_]
        collection.add(received)
        if not collection.is_closing and collection.is_enough(self.success_fraction):
            collection.is_closing = True
            self._node.spawn(self._close(round_))

    async def _close_late(self, round_: int) -> None:
        await self._node.sleep(self.aggregation_timeout_s)
        collection = self._collections.get(round_)
        if collection is None or collection.is_closing:
            return
        collection.is_closing = True
        if self._latest < round_:
            self._node.note("aggregation-timeout", f"round {round_}: {len(collection.senders)} models")
            await self._close(round_)
        else:
            self._tell_collected(self._collections.pop(round_).senders, round_)

    async def _close(self, round_: int) -> None:
        await self._node.sleep(0.0)  # those that come at this very instant count, in whatever order nodes are taken
        collection = self._collections[round_]
        model = collection.mean(self._node.model)
        if self.aggregate == "one":
            await self._distribute(model, round_)
        else:
            self._begin_with(model, round_, collection.sampled())
        self._tell_collected(self._collections.pop(round_).senders, round_)

    def _begin_with(self, model: Vector, round_: int, sampled: list[int]) -> None:
        """Takes the mean that this node has made, as all of its sample do; after the last round, all others get one."""
        message, node = self._aggregated(model, round_, len(sampled)), self._node
        if round_ == node.plan.experiment.stop.rounds and sampled[0] == node.rank:
            node.send([rank for rank in node.others if rank not in sampled], message)
        node.send(node.rank, message)

    async def _distribute(self, model: Vector, round_: int) -> None:
        """Sends a model to the sample of its round; the one after the last round to all."""
        stop = self._node.plan.experiment.stop.rounds
        is_last = stop is not None and round_ >= stop
        to = self._members.order(round_) if is_last else await self._members.online(round_, self.sample)
        self._made = max(self._made, round_)
        for ticket in self._node.send(to, self._aggregated(model, round_, len(to))):
            await ticket.settled()

    def _aggregated(self, model: Vector, round_: int, trained: int) -> Message:
        return Message(AGGREGATED, round_, {"trained": trained}, payload=(snapshot(model),))

    def _tell_collected(self, ranks: list[int], round_: int) -> None:
        """Tells these that their models are not needed any more; after the last round, the last mean tells them."""
        if self.aggregate == "one" and round_ != self._node.plan.experiment.stop.rounds:
            self._node.send(ranks, Message(COLLECTED, round_))

    # -- rounds that stand still -------------------------------------------------------------------------------------

    async def _take_over(self) -> None:
        """Goes on with the newest model, after nothing was heard for long: all that had a later one have crashed.

        First this node asks those that would be sampled next. It leaves the round to them if one is at work, knows of a
        later round, or has a newer model; of those with the same model the lowest rank goes on.
        """
        node, members = self._node, self._members
        known = members.round
        answers = await members.ping(members.order(known + 1)[: self.sample])
        await self._listen(0.0)
        self._progress_s = node.now()
        models = [(_version_in(each), -rank) for rank, each in answers.items()]
        goes_first = max([(self._version, -node.rank), *models])[1] == -node.rank
        is_at_work = any(each.message.fields.get("works") for each in answers.values())
        goes_on = self._collections or is_at_work or members.round > known or self._has_offer
        if goes_on or not goes_first:
            return
        node.note("took-over", f"round {known + 1}, with the model of round {self._version}")
        await self._distribute(node.model, known + 1)

    async def _notice_all_gone(self) -> None:
        await self._members.all_gone()
        self._node.send(self._node.rank, Message(LOOK, 0))

    def _progress(self, received: Received) -> None:
        self._members.heard(received.sender, received.round)
        self._progress_s = self._node.now()

    def _about_me(self) -> Mapping[str, Field]:
        return {"works": self._works or bool(self._collections)}

    def _answer(self, ping: Received) -> Mapping[str, Field]:
        """What this node says of itself, and whether it has the sender's model of the round that the ping is about."""
        if ping.message.fields.get("works"):
            self._progress_s = self._node.now()
        about = ping.message.fields.get("about")
        collection = self._collections.get(about) if isinstance(about, int) else None
        is_late = isinstance(about, int) and self._latest >= about
        has = is_late or (collection is not None and ping.sender in collection.senders)
        return {**self._about_me(), "version": self._version, "has": has}

    @property
    def _has_offer(self) -> bool:
        """Whether the model of a later round is here."""
        return self._offer is not None and self._offer.round > self._version

    @property
    def _latest(self) -> int:
        """The latest round that this node knows the model of."""
        return max(self._version, self._made, 0 if self._offer is None else self._offer.round)

    @property
    def _patience_s(self) -> float:
        return _STALLED * self.aggregation_timeout_s

    # -- what is remembered ------------------------------------------------------------------------------------------

    def state(self) -> State:
        return {"version": self._version}

    def restore(self, state: State) -> None:
        self._version = whole_number_in(state, "version")


def _version_in(received: Received) -> int:
    version = received.message.fields.get("version")
    return version if type(version) is int else -1
