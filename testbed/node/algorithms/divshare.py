"""DivShare: asynchronous learning in fragments, which stragglers can follow.

Biswas, Kermarrec, Pires, Sharma and de Vos, "Boosting Asynchronous Decentralized Learning with Model Fragmentation",
WWW 2025 (arXiv 2410.12918). A model is cut into fragments of a `fraction` (the paper's Ω) of its parameters, and each
fragment goes to J random `recipients` of its own. A node never waits: fragments come while it trains, those that have
not left when its next model is ready are dropped (the outbox policy `flush`), and each parameter becomes the mean over
the own model and all fragments that came with it. Fragments leave in random order, so what a slow link can carry of a
round is a random part of the model, to random nodes.
"""

from __future__ import annotations

from random import Random

from testbed.catalogue.shares import fragments_of
from testbed.node.algorithm import Algorithm
from testbed.node.fragments import Fragmentation, sender_and_part
from testbed.node.kinds import FRAGMENT
from testbed.node.node import Node
from testbed.node.recipients import fanout_among, some_of


class DivShare(Algorithm):
    """Train, send each fragment to some nodes, average what has come meanwhile."""

    waits = False

    def __init__(self, fraction: float = 0.1, recipients: int | None = None, reseed: str = "never") -> None:
        if not 0.0 < fraction <= 1.0:
            raise ValueError(f"fraction (the paper's omega) is above 0 and at most 1, not {fraction}")
        if recipients is not None and recipients < 1:
            raise ValueError(f"recipients is at least 1, not {recipients}")
        self.fraction = fraction
        self.recipients = recipients
        self.reseed = reseed

    async def run(self, node: Node) -> None:
        fragments = Fragmentation(node.model.size, fragments_of(self.fraction), node.plan.seed, self.reseed)
        count = fanout_among(len(node.learners), self.recipients)
        drawn, order = node.random("recipients"), node.random("order")
        async for round_ in node.rounds():
            await node.train()
            new = [
                (to, fragment)
                for fragment in fragments.cut(node.model, round_)
                for to in self._recipients(node, count, drawn)
            ]
            order.shuffle(new)
            for to, fragment in new:
                node.send(to, fragment)
            await node.sleep(0.0)  # what arrives at this very instant counts, in whatever order nodes are taken
            fragments.average(node.model, node.newest_of_each(FRAGMENT, sender_and_part))

    def _recipients(self, node: Node, count: int, drawn: Random) -> list[int]:
        """Different nodes for one fragment, among all others that have not finished."""
        return some_of(node.others, node.finished_peers, count, drawn)
