"""What DivShare compares with as Swift: train, send to J random nodes, take the plain mean of what has come."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.trace import Event, Posted, RoundOver, of_one_round, uneven_world
from tests.node.small_world import World

RECIPIENTS = 3
"""log2 of 6, rounded up."""


class SwiftRandom(Second):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.learned = dict(self.x)
        """Models as they were at the end of the last training."""
        self.inbox: dict[int, dict[int, tuple[int, Values]]] = {node: {} for node in self.nodes}
        self.overtaken = 0

    def trained(self, node: int, change: Values, steps: int) -> None:  # noqa: ARG002
        self.learned[node] = self.x[node] + change
        theirs = [values for _, values in self.inbox[node].values()]
        self.inbox[node] = {}
        self.x[node] = (self.learned[node] + sum(theirs)) / (1 + len(theirs))

    def carries(self, post: Posted) -> Values:
        return self.learned[post.node]

    def arrives(self, post: Posted, values: Values | None) -> None:
        assert values is not None
        inbox = self.inbox[post.to]
        self.overtaken += post.node in inbox
        if post.node not in inbox or post.message.round >= inbox[post.node][0]:
            inbox[post.node] = (post.message.round, values)

    def ends(self, trace: Sequence[Event]) -> None:
        last = None if self.world.rounds is None else self.world.rounds - 1
        finished = {event.node: event.t for event in trace if isinstance(event, RoundOver) and event.round == last}
        for (node, _), posts in of_one_round(trace, lambda _: True).items():
            others = [other for other in self.nodes if other != node and finished.get(other, inf) >= posts[0].t]
            assert len({post.to for post in posts} - {node}) == len(posts)
            assert min(RECIPIENTS, len(others)) <= len(posts) <= RECIPIENTS


@pytest.mark.parametrize("policy", ["fifo", "flush", "latest"])
def test_swift_random(policy: str) -> None:
    experiment = {"outbox": {"policy": policy}}
    second = SwiftRandom(uneven_world({"name": "swift-random"}, until_s=2.0, experiment=experiment))
    agree(second)
    assert second.overtaken > 20


def test_to_the_end_of_the_rounds() -> None:
    """Nodes that have finished get nothing more."""
    agree(SwiftRandom(uneven_world({"name": "swift-random"})))
