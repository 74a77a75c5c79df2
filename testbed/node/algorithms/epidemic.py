"""Epidemic Learning: every round, models go to a few random nodes.

De Vos et al., "Epidemic Learning: Boosting Decentralized Learning with Randomized Communication", NeurIPS 2023.
EL-Oracle draws a random regular graph every round: every node sends to s others and receives from the same s. In
EL-Local every node draws its own s recipients, so that it receives s models on average only; `round_end` says how it
knows that it has all models of a round. Both take the plain mean of the models that are there.
"""

from __future__ import annotations

from functools import lru_cache

from testbed.node.algorithm import Algorithm
from testbed.node.kinds import MODEL
from testbed.node.node import Node
from testbed.node.recipients import Recipients, fanout_among, independent
from testbed.node.round_end import RoundEnd
from testbed.plan.overlay_graph import regular_graph

MODES = ("oracle", "local")


class Epidemic(Algorithm):
    """Train, send to `fanout` random nodes, take the mean of what arrives."""

    def __init__(
        self,
        mode: str = "oracle",
        fanout: int | None = None,
        round_end: str = "expected",
        timeout: float = 1.0,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
        if fanout is not None and fanout < 0:
            raise ValueError("fanout cannot be negative")
        self.mode = mode
        self.fanout = fanout
        local_end = RoundEnd(round_end, timeout)
        self.round_end = local_end if mode == "local" else RoundEnd("expected", timeout)

    async def run(self, node: Node) -> None:
        is_regular = self.mode == "oracle"
        fanout = fanout_among(len(node.learners), self.fanout, regular=is_regular)
        async for round_ in node.rounds():
            await node.train()
            where = (node.plan.seed, node.learners, fanout, round_)
            recipients = _regular(*where) if is_regular else independent(*where)[0]
            node.send(recipients[node.rank], self.sharing.encode(node.model, round_))
            received = await self.round_end.received(node, round_, MODEL, {None: recipients})
            self.sharing.mean(node.model, received)


# All nodes of one process draw the same, so the draws are cached.
@lru_cache(maxsize=4)
def _regular(seed: int, learners: tuple[int, ...], fanout: int, round_: int) -> Recipients:
    """Neighbours in the random regular graph of a round."""
    if not fanout:
        return dict.fromkeys(learners, ())
    graph = regular_graph(len(learners), fanout, seed, round_)
    return {rank: tuple(learners[other] for other in graph[place]) for place, rank in enumerate(learners)}
