"""Gossip learning: models walk from node to node, and are merged and trained wherever they arrive.

Ormándi, Hegedűs and Jelasity, "Gossip Learning with Linear Models on Fully Distributed Data", Concurrency and
Computation: Practice and Experience 2013, arXiv 1109.1396. Merging by age: Hegedűs, Danner and Jelasity, "Gossip
Learning as a Decentralized Alternative to Federated Learning", DAIS 2019. Once a period, a node sends its model to a
random neighbour (push), asks it for its model (pull), or does both. A node that receives a model merges it into its
own and trains the result. The age of a model is the number of local steps behind it. A round is one period.
"""

from __future__ import annotations

from testbed.node.algorithm import Algorithm
from testbed.node.kinds import MODEL
from testbed.node.messages import Message, Received, UnusableModel
from testbed.node.node import Node
from testbed.node.state import State, whole_number_in
from testbed.node.tickets import Ticket

PULL = "pull"
MODES = ("push", "pull", "push-pull")
WEIGHTS = ("age", "average")
BUSY = ("latest", "queue")


class Gossip(Algorithm):
    """One task sends, period after period; the other merges and trains what comes."""

    def __init__(self, mode: str = "push", period: float = 1.0, weights: str = "age", busy: str = "latest") -> None:
        if mode not in MODES or weights not in WEIGHTS or busy not in BUSY:
            words = (f"{name} one of {', '.join(of)}" for name, of in (("weights", WEIGHTS), ("busy", BUSY)))
            raise ValueError(f"mode is one of {', '.join(MODES)}, {', '.join(words)}")
        if not period > 0:
            raise ValueError("period is above 0 seconds")
        self.pushes = mode != "pull"
        self.pulls = mode != "push"
        self.period_s = period
        self.weights = weights
        self.busy = busy
        self.age = 0
        self._sent: dict[int, int] = {}
        """By neighbour: the age of the model that was sent to it last."""
        self._leaving: dict[int, Ticket] = {}
        """By neighbour: that model, until it has left or was dropped."""

    async def run(self, node: Node) -> None:
        if self.pulls:
            node.on(PULL, lambda asked: self._send_model(node, asked.sender))
        node.spawn(self._merge_what_comes(node))
        random, tick_s = node.random("neighbour"), node.now() + self.period_s * node.random("phase").random()
        await node.sleep(tick_s - node.now())
        async for round_ in node.rounds():
            neighbours = [rank for rank in await node.neighbours(round_) if rank not in node.finished_peers]
            if neighbours:
                neighbour = random.choice(neighbours)
                if self.pulls:  # before the model: it is answered with what the neighbour has before it merges that
                    await node.send(neighbour, Message(PULL, round_))
                if self.pushes:
                    self._send_model(node, neighbour)
            late = tick_s + self.period_s < node.now()  # a node that was paused does not catch up
            tick_s = (node.now() if late else tick_s) + self.period_s
            await node.sleep(tick_s - node.now())

    def _send_model(self, node: Node, neighbour: int) -> None:
        """Sends the model, unless it is no older than the one that this neighbour has been sent."""
        for rank, ticket in list(self._leaving.items()):
            if ticket.left or ticket.dropped:
                del self._leaving[rank]
            if ticket.dropped:  # it may be sent again
                del self._sent[rank]
        if self.age > self._sent.get(neighbour, -1):
            model = self.sharing.encode(node.model, node.round).with_fields(age=self.age)
            (self._leaving[neighbour],) = node.send(neighbour, model)
            self._sent[neighbour] = self.age

    async def _merge_what_comes(self, node: Node) -> None:
        """Merges and trains, again and again; what arrives during training waits for its end."""
        while True:
            received = [await node.latest(MODEL)] if self.busy == "latest" else await node.receive_all(MODEL)
            received.sort(key=lambda each: (each.sender, each.round))
            ages = [_age_of(each) for each in received]
            self.sharing.mix(node.model, received, self._weights_of(ages))
            self.age = max(self.age, *ages)
            done = node.steps
            await node.train()
            self.age += node.steps - done

    def _weights_of(self, ages: list[int]) -> list[float]:
        """Of received models of these ages; the own model has the rest of 1.

        An own model without age counts as much as a received one does on average: by its age it would be lost.
        """
        if self.weights == "average" or not any((self.age, *ages)):
            return [1 / (1 + len(ages))] * len(ages)
        own = self.age or sum(ages) / len(ages)
        return [age / (own + sum(ages)) for age in ages]

    def state(self) -> State:
        """Not what was sent to whom: a node that came back sends anew, so that neighbours that wait for it go on."""
        return {"age": self.age}

    def restore(self, state: State) -> None:
        self.age = whole_number_in(state, "age")


def _age_of(received: Received) -> int:
    age = received.message.fields.get("age")
    if type(age) is not int or age < 0:
        raise UnusableModel(received.sender, f"a model of the age {age!r}")
    return age
