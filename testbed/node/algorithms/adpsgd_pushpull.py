"""AD-PSGD by push and pull: what the artifact of DivShare calls AD-PSGD, and compares with.

Biswas et al., "Boosting Asynchronous Decentralized Learning with Model Fragmentation", WWW 2025, arXiv 2410.12918;
`adpsgd` has the algorithm of the paper that its name comes from. A node sends its model to some random nodes after each
training, as pings. A node that gets a ping sends back the model that it had after its last training, as a pong. Once a
round, a node takes the mean of its model and all that have arrived, of every sender the newest.
"""

from __future__ import annotations

from testbed.node.algorithm import Algorithm
from testbed.node.messages import Message, Received
from testbed.node.node import Node
from testbed.node.recipients import fanout_among

PING, PONG = "ping", "pong"


class PushPull(Algorithm):
    """Train, ping random nodes, take the mean of what has arrived."""

    waits = False

    def __init__(self, fanout: int | None = None) -> None:
        if fanout is not None and fanout < 1:
            raise ValueError("fanout is a whole number from 1 on")
        self.fanout = fanout
        self._trained: Message | None = None
        """The model at the end of the last training."""
        self._received: dict[int, Received] = {}
        """By sender, the newest model since the last mean."""

    async def run(self, node: Node) -> None:
        random = node.random("pings")
        pings = max(1, fanout_among(len(node.learners), self.fanout) // 2)  # the other half are the pongs
        node.on(PING, lambda ping: self._answer(node, ping))
        node.on(PONG, self._keep)
        async for round_ in node.rounds():
            await node.train()
            self._trained = self.sharing.encode(node.model, round_)
            there = [rank for rank in node.others if rank not in node.finished_peers]
            for _ in range(pings if there else 0):
                node.send(random.choice(there), self._trained.of_kind(PING))  # the same one again, too
            received, self._received = self._received, {}
            self.sharing.mean(node.model, [received[sender] for sender in sorted(received)])

    def _answer(self, node: Node, ping: Received) -> None:
        self._keep(ping)
        if self._trained is not None and ping.sender not in node.finished_peers:
            node.send(ping.sender, self._trained.of_kind(PONG))

    def _keep(self, received: Received) -> None:
        newest = self._received.get(received.sender)
        if newest is None or received.round >= newest.round:
            self._received[received.sender] = received
