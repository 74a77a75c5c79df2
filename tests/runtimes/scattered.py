"""D-PSGD from different starting points: what averaging alone does to them."""

from __future__ import annotations

import numpy as np

from testbed.node.algorithms.dpsgd import DPSGD
from testbed.node.node import Node


class Scattered(DPSGD):
    """Every node's model is moved by a draw of its own before the first round."""

    async def run(self, node: Node) -> None:
        draws = np.random.default_rng(node.random("scatter").getrandbits(64))
        node.model += draws.normal(size=node.model.size).astype(np.float32)
        await super().run(node)
