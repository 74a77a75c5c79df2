"""Mosaic Learning: epidemic learning in fragments.

Biswas et al., "Mosaic Learning: A Framework for Decentralized Learning with Model Fragmentation", 2026
(arXiv 2602.04352), of which only the abstract was available. A model is cut into K fragments that spread independently:
every round each fragment goes to s random recipients of its own, where epidemic learning sends the whole model to the
same s. So the bytes are the same, but a model reaches up to K times as many nodes, in parts. Each parameter becomes the
mean over the own model and the fragments that have it. With K = 1 this is EL-Local.
"""

from __future__ import annotations

from testbed.node.algorithm import Algorithm
from testbed.node.fragments import Fragmentation
from testbed.node.kinds import FRAGMENT
from testbed.node.node import Node
from testbed.node.recipients import fanout_among, independent
from testbed.node.round_end import RoundEnd


class Mosaic(Algorithm):
    """Train, send each of `fragments` parts to `fanout` random nodes of its own, average what arrives."""

    def __init__(
        self, fragments: int = 8, fanout: int | None = None, round_end: str = "expected", timeout: float = 1.0
    ) -> None:
        if fragments < 1:
            raise ValueError(f"fragments is at least 1, not {fragments}")
        if fanout is not None and fanout < 0:
            raise ValueError("fanout cannot be negative")
        self.fragments = fragments
        self.fanout = fanout
        self.round_end = RoundEnd(round_end, timeout)

    async def run(self, node: Node) -> None:
        fragments = Fragmentation(node.model.size, self.fragments, node.plan.seed)
        fanout = fanout_among(len(node.learners), self.fanout)
        async for round_ in node.rounds():
            await node.train()
            recipients = independent(node.plan.seed, node.learners, fanout, round_, fragments.parts)
            for drawn, fragment in zip(recipients, fragments.cut(node.model, round_), strict=True):
                node.send(drawn[node.rank], fragment)
            received = await self.round_end.received(node, round_, FRAGMENT, dict(enumerate(recipients)))
            fragments.average(node.model, received)
