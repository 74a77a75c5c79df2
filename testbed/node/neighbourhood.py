"""The neighbours of a node in each round, and the peer sampler, which draws them for all nodes.

Takes a `NodePlan`, gives ranks. A static overlay is in the plan. A new graph every round is either computed by every
node from the shared seed, without traffic, or requested from the sampler by a message over the network. With `cyclon`,
nodes draw their neighbours from views that they shuffle among themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from testbed.node.cyclon import Cyclon
from testbed.node.kinds import ASK_PEERS, PEERS
from testbed.node.messages import Message
from testbed.node.state import State
from testbed.plan.model import NodePlan
from testbed.plan.overlay_graph import dynamic_graph

if TYPE_CHECKING:
    from testbed.node.node import Node

VIEW = "view"
"""The name of a view in a snapshot's state."""


class Neighbourhood:
    """The neighbours of one node."""

    def __init__(self, plan: NodePlan) -> None:
        self._plan = plan
        self._cyclon: Cyclon | None = None

    def restore(self, node: Node, state: State) -> None:
        """Makes the node's view, if it has one, from that of before it went down. Raises UnusableState."""
        overlay = self._plan.overlay
        if overlay.views is not None and self._plan.node.learner is not None:
            self._cyclon = Cyclon(node, overlay.views, overlay.degree or 0, state)

    def begin(self) -> None:
        """The node begins to work: its view, if it has one, is kept up from now on."""
        if self._cyclon is not None:
            self._cyclon.begin()

    def states(self) -> Mapping[str, State]:
        """What to save of it in snapshots."""
        return {} if self._cyclon is None else {VIEW: self._cyclon.state()}

    async def of(self, node: Node, round_: int) -> tuple[int, ...]:
        """Ranks, ascending."""
        plan = self._plan
        if self._cyclon is not None:
            return self._cyclon.neighbours(round_)
        if not plan.overlay.dynamic:
            return plan.neighbours or ()
        if plan.overlay.peers == "seed":
            return neighbours_in(plan, plan.node.rank, round_)
        sampler = plan.overlay.sampler
        assert sampler is not None  # noqa: S101 - the plan names one
        node.post([sampler], Message(ASK_PEERS, round_))
        answers = await node.gather_any_kind([sampler], round_, PEERS)
        if not answers:
            await node.patience()  # without peers, rounds would run away
        peers = answers[0].message.fields.get("peers") if answers else []
        return tuple(peer for peer in peers if type(peer) is int) if isinstance(peers, list) else ()


def neighbours_in(plan: NodePlan, rank: int, round_: int) -> tuple[int, ...]:
    """A learner's neighbours in the graph of a round, by the shared seed."""
    graph = dynamic_graph(plan.overlay, len(plan.learners), plan.seed, round_)
    return tuple(plan.learners[other] for other in graph[plan.learners.index(rank)])


class PeerSampler:
    """The role `sampler`: answers every node that asks for its neighbours of a round."""

    async def serve(self, node: Node) -> None:
        while True:
            asked = await node.receive_any_kind([ASK_PEERS])
            assert asked is not None  # noqa: S101 - it waits as long as it takes
            peers = neighbours_in(node.plan, asked.sender, asked.round)
            node.post([asked.sender], Message(PEERS, asked.round, {"peers": list(peers)}))
