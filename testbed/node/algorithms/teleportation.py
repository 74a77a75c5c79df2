"""Teleportation: only some nodes work in a round, and models jump to those of the next round.

Takezawa and Stich, "Scalable Decentralized Learning with Teleportation", ICLR 2025, arXiv 2501.15259. In every round, k
of the n nodes are active. Each takes over the model of an active node of the round before, trains it, and averages it
once with its neighbours in a small graph over the k positions. So the spread of the models depends on k and not on n.
"""

from __future__ import annotations

from testbed.node.algorithm import Algorithm
from testbed.node.node import Node
from testbed.node.state import NOTHING, State
from testbed.node.turns import Turns
from testbed.plan.overlay_graph import full, ring

GRAPHS = ("ring", "full")


class Teleportation(Algorithm):
    """A node that is not active waits for the model of its next turn, and works on nothing."""

    def __init__(self, active: int = 4, graph: str = "ring") -> None:
        if active < 1:
            raise ValueError("active is at least 1: the number of nodes that work in a round")
        if graph not in GRAPHS:
            raise ValueError(f"graph is one of {', '.join(GRAPHS)}")
        self.active = active
        self.graph = graph
        self._turns: Turns | None = None
        self._restored = NOTHING

    async def run(self, node: Node) -> None:
        positions = min(self.active, len(node.learners))
        graph = ring(range(positions)) if self.graph == "ring" else full(positions)
        turns = self._turns = Turns(node, graph, self._restored)
        while (turn := await turns.next()) is not None:
            async with node.one_round(turn.round):
                if turn.received is not None:
                    self.sharing.adopt(node.model, turn.received)
                await node.train()
                await node.send(turn.neighbours, self.sharing.encode(node.model, turn.round))
                received = await node.gather(turn.neighbours, turn.round)
                self.sharing.average(node.model, received, degree=len(turn.neighbours))
                turns.hand_on(turn)
            turns.end(turn)

    def state(self) -> State:
        return NOTHING if self._turns is None else self._turns.state()

    def restore(self, state: State) -> None:
        self._restored = state
