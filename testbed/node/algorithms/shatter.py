"""Shatter: chunks of models travel between virtual nodes, so that no other node sees a whole model.

Biswas, Even, Kermarrec, Massoulie, Pires, Sharma and de Vos, "Noiseless Privacy-Preserving Decentralized Learning",
2024 (arXiv 2404.09536). Every node runs k virtual nodes. In every round all virtual nodes of all nodes form a new
random r-regular graph, and virtual node c sends chunk c of its node's model to its r neighbours. A node waits for the
k * r chunks that its virtual nodes are due, and takes the mean of each parameter over its own value and all values that
came. With k = 1 this is EL-Oracle.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from testbed.node.algorithm import Algorithm
from testbed.node.fragments import Fragmentation
from testbed.node.kinds import FRAGMENT
from testbed.node.messages import Received
from testbed.node.node import Node
from testbed.node.virtual_nodes import Link, VirtualNodes


class Shatter(Algorithm):
    """Train, let virtual node c send chunk c to its neighbours, average what comes to the own virtual nodes."""

    def __init__(self, virtual_nodes: int = 16, degree: int = 4) -> None:
        if virtual_nodes < 1:
            raise ValueError(f"virtual_nodes (the paper's k) is at least 1, not {virtual_nodes}")
        if degree < 1:
            raise ValueError(f"degree (the paper's r) is at least 1, not {degree}")
        self.virtual_nodes = virtual_nodes
        self.degree = degree

    async def run(self, node: Node) -> None:
        chunks = Fragmentation(node.model.size, self.virtual_nodes, node.plan.seed)
        virtual = VirtualNodes(node.learners, chunks.parts, self.degree, node.plan.seed)
        async for round_ in node.rounds():
            await node.train()
            cut = chunks.cut(node.model, round_)
            links = list(virtual.links(node.rank, round_))
            away = [link for link in links if link.rank != node.rank]
            for link in away:
                number = _number(link.own, link.other, chunks.parts)
                node.send(link.rank, cut[link.own].with_fields(part=number))
            received = [Received(node.rank, cut[link.other]) for link in links if link.rank == node.rank]
            received += await _received(node, round_, away, chunks.parts)
            chunks.average(node.model, received)


async def _received(node: Node, round_: int, links: list[Link], parts: int) -> list[Received]:
    """The chunks that this node's virtual nodes get from those of other nodes."""
    senders: dict[tuple[int, int], list[int]] = defaultdict(list)
    for link in links:
        senders[link.other, link.own].append(link.rank)
    found = []
    for (chunk, to), ranks in sorted(senders.items()):
        for each in await node.gather(ranks, round_, FRAGMENT, part=_number(chunk, to, parts)):
            found.append(replace(each, message=each.message.with_fields(part=chunk)))
    return found


def _number(chunk: int, to: int, parts: int) -> int:
    """The number of a chunk on its way to one virtual node: a node may get the same chunk for several of its own."""
    return chunk + parts * to
