"""D-PSGD: decentralized parallel stochastic gradient descent.

Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", NeurIPS 2017. Every node trains, sends
its model to all neighbours, waits for theirs of the same round, and averages with Metropolis-Hastings weights. On a
dynamic overlay the neighbours change in every round.
"""

from __future__ import annotations

from testbed.node.algorithm import Algorithm
from testbed.node.node import Node


class DPSGD(Algorithm):
    """Train, exchange with every neighbour, average."""

    async def run(self, node: Node) -> None:
        async for round_ in node.rounds():
            await node.train()
            neighbours = await node.neighbours(round_)
            await node.send(neighbours, self.sharing.encode(node.model, round_))
            received = await node.gather(neighbours, round_)
            self.sharing.average(node.model, received, degree=len(neighbours))
