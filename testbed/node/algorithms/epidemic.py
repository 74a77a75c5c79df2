"""Epidemic Learning: every round, models go to a few random nodes.

De Vos et al., "Epidemic Learning: Boosting Decentralized Learning with Randomized Communication", NeurIPS 2023.
EL-Oracle draws a random regular graph every round: every node sends to s others and receives from the same s. In
EL-Local every node draws its own s recipients, so that it receives s models on average only. Both take the plain mean
of the models that are there.

In EL-Local, `round_end` says how a node knows that it has all models of a round:
`notify`: nodes that get no model get a note instead; every node waits for all others.
`timeout`: a node takes the models that have arrived some time after it sent, of any round.
`expected`: every node draws all nodes' recipients from the shared seed, and so knows which nodes to wait for.
"""

from __future__ import annotations

from functools import lru_cache

from testbed.node.algorithm import Algorithm
from testbed.node.kinds import MODEL
from testbed.node.messages import Message, Received
from testbed.node.node import Node
from testbed.plan.model import PlannedOverlay
from testbed.plan.overlay_graph import check_degree, default_fanout, dynamic_graph
from testbed.seeds import stream

MODES = ("oracle", "local")
ROUND_ENDS = ("notify", "timeout", "expected")

Recipients = dict[int, tuple[int, ...]]


class Epidemic(Algorithm):
    """Train, send to `fanout` random nodes, take the mean of what arrives."""

    def __init__(
        self,
        mode: str = "oracle",
        fanout: int | None = None,
        round_end: str = "expected",
        timeout: float = 1.0,
    ) -> None:
        if mode not in MODES or round_end not in ROUND_ENDS:
            raise ValueError(f"mode is one of {', '.join(MODES)}, and round_end one of {', '.join(ROUND_ENDS)}")
        if (fanout is not None and fanout < 0) or timeout < 0:
            raise ValueError("fanout and timeout cannot be negative")
        self.mode = mode
        self.fanout = fanout
        self.round_end = round_end
        self.timeout_s = timeout

    async def run(self, node: Node) -> None:
        draw = _regular if self.mode == "oracle" else _independent
        fanout = self._fanout_among(len(node.learners))
        async for round_ in node.rounds():
            await node.train()
            recipients = draw(node.plan.seed, node.learners, fanout, round_)
            await node.send(recipients[node.rank], self.sharing.encode(node.model, round_))
            received = await self._received(node, recipients, round_)
            self.sharing.mean(node.model, received)

    async def _received(self, node: Node, recipients: Recipients, round_: int) -> list[Received]:
        if self.mode == "local" and self.round_end == "timeout":
            await node.sleep(self.timeout_s)
            return sorted(node.arrived(MODEL), key=lambda each: (each.sender, each.round))
        if self.mode == "local" and self.round_end == "notify":
            others = [rank for rank in node.others if rank not in recipients[node.rank]]
            await node.send(others, Message(MODEL, round_))
            return [each for each in await node.gather(node.others, round_) if each.message.payload]
        return await node.gather([rank for rank in node.others if node.rank in recipients[rank]], round_)

    def _fanout_among(self, nodes: int) -> int:
        """The fanout as set, or the logarithm of the number of nodes; raises ValueError if there is no such graph."""
        regular = self.mode == "oracle"
        fanout = default_fanout(nodes, regular=regular) if self.fanout is None else self.fanout
        check_degree("regular" if regular else "full", nodes, fanout, dynamic=True)
        return fanout


# All nodes of one process draw the same, so the draws are cached.
@lru_cache(maxsize=4)
def _regular(seed: int, learners: tuple[int, ...], fanout: int, round_: int) -> Recipients:
    """Neighbours in the random regular graph of a round."""
    if not fanout:
        return dict.fromkeys(learners, ())
    overlay = PlannedOverlay(
        kind="regular",
        degree=fanout,
        dynamic=True,
        peers="seed",
        sampler=None,
        neighbours=None,
        rewire=0.0,
        code=None,
    )
    graph = dynamic_graph(overlay, len(learners), seed, round_)
    return {rank: tuple(learners[other] for other in graph[place]) for place, rank in enumerate(learners)}


@lru_cache(maxsize=4)
def _independent(seed: int, learners: tuple[int, ...], fanout: int, round_: int) -> Recipients:
    """Each node's own draw, from a stream of its own."""
    recipients = {}
    for rank in learners:
        others = [other for other in learners if other != rank]
        recipients[rank] = tuple(sorted(stream(seed, "epidemic", str(round_), str(rank)).sample(others, fanout)))
    return recipients
