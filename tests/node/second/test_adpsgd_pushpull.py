"""What DivShare compares with as AD-PSGD: models are pushed to random nodes, which push theirs back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.trace import Event, Posted, of_one_round, uneven_world
from tests.node.small_world import World


class PushPull(Second):
    def __init__(self, world: World, pings: int) -> None:
        super().__init__(world)
        self.pings = pings
        self.latest: dict[int, Values] = {}
        """Models as they were at the end of the last training."""
        self.inbox: dict[int, dict[int, tuple[int, Values]]] = defaultdict(dict)
        self.owed: Counter[tuple[int, int]] = Counter()
        """Pongs."""
        self.twice = 0

    def trained(self, node: int, change: Values, steps: int) -> None:  # noqa: ARG002
        self.latest[node] = self.x[node] + change
        theirs = [values for _, values in self.inbox.pop(node, {}).values()]
        self.x[node] = (self.latest[node] + sum(theirs)) / (1 + len(theirs))

    def carries(self, post: Posted) -> Values:
        if post.message.kind == "pong":
            self.owed[post.node, post.to] -= 1
            assert self.owed[post.node, post.to] >= 0
        return self.latest[post.node]

    def arrives(self, post: Posted, values: Values | None) -> None:
        assert values is not None
        assert not any(self.owed.values()), self.owed
        if post.message.kind == "ping" and post.to in self.latest:
            self.owed[post.to, post.node] += 1
        inbox = self.inbox[post.to]
        if post.node not in inbox or post.message.round >= inbox[post.node][0]:
            inbox[post.node] = (post.message.round, values)

    def ends(self, trace: Sequence[Event]) -> None:
        for (node, _), posts in of_one_round(trace, lambda post: post.message.kind == "ping").items():
            assert len(posts) == self.pings
            assert node not in [post.to for post in posts]
            self.twice += len({post.to for post in posts}) < self.pings


@pytest.mark.parametrize(("fanout", "policy"), [(None, None), (5, "fifo"), (4, "flush"), (5, "latest")])
def test_pushpull(fanout: int | None, policy: str | None) -> None:
    options: dict[str, object] = {} if fanout is None else {"fanout": fanout}
    world = uneven_world({"name": "adpsgd-pushpull", **options}, until_s=2.0)
    if policy is not None:
        world.experiment = {**world.experiment, "outbox": {"policy": policy}}
    second = PushPull(world, (fanout or 3) // 2)
    agree(second)
    assert second.twice > 5 or second.pings == 1
