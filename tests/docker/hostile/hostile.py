"""D-PSGD, but for nodes that are called what they do besides: a service `escapes` does what `escapes.py` says.

Each of those files has `act(node, round_, told)`, called after every round; `told` are the experiment's options.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from testbed.node.algorithm import Algorithm
from testbed.node.node import Node

ACTS = ("escapes", "intrudes", "forges", "litters", "floods", "kills", "gorges", "closes")
Act = Callable[[Node, int, Mapping[str, object]], Awaitable[None]]


class Hostile(Algorithm):
    def __init__(self, **told: object) -> None:
        self._told = told

    async def run(self, node: Node) -> None:
        act = self._act_of(node.name.partition(".")[0])
        async for round_ in node.rounds():
            await node.train()
            neighbours = await node.neighbours(round_)
            await node.send(neighbours, self.sharing.encode(node.model, round_))
            received = await node.gather(neighbours, round_)
            self.sharing.average(node.model, received, degree=len(neighbours))
            if act is not None:
                await act(node, round_, self._told)

    @staticmethod
    def _act_of(name: str) -> Act | None:
        if name not in ACTS:
            return None
        sys.path.insert(0, str(Path(__file__).parent))
        found: Act = importlib.import_module(name).act
        return found
