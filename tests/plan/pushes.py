"""An algorithm that waits for nothing: the tests of estimates run it."""

from __future__ import annotations

from testbed.node.algorithm import Algorithm
from testbed.node.node import Node


class Pushes(Algorithm):
    """Trains, sends its model to all neighbours, and mixes what is there."""

    waits = False
    sends_to = "neighbours"

    async def run(self, node: Node) -> None:
        async for round_ in node.rounds():
            await node.train()
            await node.send(await node.neighbours(round_), self.sharing.encode(node.model, round_))
            self.sharing.mean(node.model, node.arrived())
