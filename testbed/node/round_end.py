"""The end of a round in which every node draws its own recipients: how a node knows that nothing more comes.

Takes the draws of all nodes, gives the messages that a node mixes; waits for them as the node does.
"""

from __future__ import annotations

from collections.abc import Mapping

from testbed.node.kinds import PART
from testbed.node.messages import Message, Received
from testbed.node.node import Node
from testbed.node.recipients import Recipients

ROUND_ENDS = ("notify", "timeout", "expected")
"""`notify`: nodes that get nothing get a note instead, and every node waits for all others.
`timeout`: a node takes what has arrived some time after it sent, of any round.
`expected`: every node draws all nodes' recipients from the shared seed, and so knows which nodes to wait for."""

Drawn = Mapping[int | None, Recipients]
"""Recipients by the part of a model that they get; None for whole models."""


class RoundEnd:
    """One of the ways in which a round ends."""

    def __init__(self, how: str, timeout_s: float) -> None:
        if how not in ROUND_ENDS:
            raise ValueError(f"round_end is one of {', '.join(ROUND_ENDS)}, not {how!r}")
        if timeout_s < 0:
            raise ValueError("timeout cannot be negative")
        self.how = how
        self.timeout_s = timeout_s

    async def received(self, node: Node, round_: int, kind: str, drawn: Drawn) -> list[Received]:
        """What there is to mix at the end of a round, after this node has sent its own; by part, then rank."""
        if self.how == "timeout":
            await node.sleep(self.timeout_s)
            return sorted(node.arrived(kind), key=lambda each: (each.sender, each.round))
        if self.how == "notify":
            for part, recipients in drawn.items():
                others = [rank for rank in node.others if rank not in recipients[node.rank]]
                node.send(others, Message(kind, round_, {} if part is None else {PART: part}))
        found: list[Received] = []
        for part, recipients in drawn.items():
            senders = node.others if self.how == "notify" else _senders(node, recipients)
            found += await node.gather(senders, round_, kind, part=part)
        return [each for each in found if each.message.payload]


def _senders(node: Node, recipients: Recipients) -> list[int]:
    """The nodes that have drawn this one."""
    return [rank for rank in node.others if node.rank in recipients[rank]]
