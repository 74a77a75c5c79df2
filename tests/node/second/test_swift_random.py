"""What DivShare compares with as Swift: train, send to J random nodes, take the plain mean of what has come."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.trace import Event, Posted, of_one_round, uneven_world
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
        for posts in of_one_round(trace, lambda _: True).values():
            assert len({post.to for post in posts} - {posts[0].node}) == len(posts) == RECIPIENTS


@pytest.mark.parametrize("policy", ["fifo", "flush", "latest"])
def test_swift_random(policy: str) -> None:
    experiment = {"outbox": {"policy": policy}}
    second = SwiftRandom(uneven_world({"name": "swift-random"}, until_s=2.0, experiment=experiment))
    agree(second)
    assert second.overtaken > 20
