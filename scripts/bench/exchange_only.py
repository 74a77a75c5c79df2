"""D-PSGD without its arithmetic: what is left is the network."""

from __future__ import annotations

from testbed.node.algorithm import Algorithm
from testbed.node.messages import Message
from testbed.node.node import Node


class ExchangeOnly(Algorithm):
    """Let a step's time pass, exchange with every neighbour, forget what came."""

    async def run(self, node: Node) -> None:
        async for round_ in node.rounds():
            await node.train()
            neighbours = await node.neighbours(round_)
            await node.send(neighbours, Message("model", round_, payload=(node.model,)))
            await node.gather(neighbours, round_)
