"""The "Swift" that DivShare is compared with: whole models to random nodes, without waiting.

Biswas, Kermarrec, Pires, Sharma and de Vos, "Boosting Asynchronous Decentralized Learning with Model Fragmentation",
WWW 2025 (arXiv 2410.12918), as their published code has it: each iteration a node trains, queues its model for J random
`recipients` among all others, and takes the plain mean of its model and those that came since its last iteration, the
newest of each sender. It is DivShare with one fragment, and neither has CCS weights nor remembers models as SWIFT does.
The published code drops nothing that waits for a slow link (outbox policy `fifo`).
"""

from __future__ import annotations

from testbed.node.algorithm import Algorithm
from testbed.node.kinds import MODEL
from testbed.node.node import Node
from testbed.node.recipients import fanout_among, some_of


class SwiftRandom(Algorithm):
    """Train, send the model to some nodes, average what has come meanwhile."""

    waits = False

    def __init__(self, recipients: int | None = None) -> None:
        if recipients is not None and recipients < 1:
            raise ValueError(f"recipients is at least 1, not {recipients}")
        self.recipients = recipients

    async def run(self, node: Node) -> None:
        count = fanout_among(len(node.learners), self.recipients)
        drawn, order = node.random("recipients"), node.random("order")
        async for round_ in node.rounds():
            await node.train()
            model = self.sharing.encode(node.model, round_)
            recipients = some_of(node.others, node.finished_peers, count, drawn)
            order.shuffle(recipients)
            node.send(recipients, model)
            await node.sleep(0.0)  # what arrives at this very instant counts, in whatever order nodes are taken
            self.sharing.mean(node.model, node.newest_of_each(MODEL, lambda each: (each.sender,)))
