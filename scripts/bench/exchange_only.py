"""D-PSGD without its arithmetic: what is left is the network."""

from __future__ import annotations

from testbed.node.algorithm import Algorithm
from testbed.node.messages import Message
from testbed.node.node import Node


class ExchangeOnly(Algorithm):
    """Waits a step's time, exchanges with every neighbour, discards what arrives."""

    async def run(self, node: Node) -> None:
        async for round_ in node.rounds():
            await node.train()
            neighbours = await node.neighbours(round_)
            await node.send(neighbours, Message("model", round_, payload=(node.model,)))
            await node.gather(neighbours, round_)
