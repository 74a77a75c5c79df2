"""Gossip learning: a model y of age b that arrives is merged, x = (a x + b y) / (a + b), and the result is trained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.trace import UNEVEN, Event, Posted, RoundOver, uneven_world
from tests.node.small_world import World

PERIOD_S = 0.055


class Gossip(Second):
    def __init__(self, world: World, *, mode: str, weights: str, busy: str) -> None:
        super().__init__(world)
        self.mode, self.weights, self.busy = mode, weights, busy
        self.age = dict.fromkeys(self.nodes, 0)
        """In local steps."""
        self.is_training = dict.fromkeys(self.nodes, False)
        self.waiting: dict[int, list[tuple[int, Values]]] = defaultdict(list)
        """Ages and models that have come during a training."""
        self.carried: dict[int, int] = {}
        """The age of the model in a message."""
        self.told: dict[tuple[int, int], int] = {}
        """The age of the model that a node has sent another one last."""
        self.owed: set[tuple[int, int]] = set()
        """Answers that must be sent at once."""
        self.left_out = self.merged_at_once = self.spared = self.first = 0

    def has_news(self, node: int, to: int) -> bool:
        return self.age[node] > self.told.get((node, to), -1)

    def carries(self, post: Posted) -> Values | None:
        if not post.message.payload:
            return None
        node, to = post.node, post.to
        assert self.has_news(node, to), "the same model is sent twice"
        assert post.message.fields["age"] == self.age[node]
        self.told[node, to] = self.carried[post.number] = self.age[node]
        self.owed.discard((node, to))
        return self.x[node]

    def arrives(self, post: Posted, values: Values | None) -> None:
        assert not self.owed
        node = post.to
        if values is None:
            if self.has_news(node, post.node):
                self.owed.add((node, post.node))
            else:
                self.spared += 1
        elif not self.is_training[node]:
            self.merge(node, [(self.carried[post.number], values)])
        else:
            self.left_out += self.busy == "latest" and len(self.waiting[node])
            kept = self.waiting[node] if self.busy == "queue" else []
            self.waiting[node] = [*kept, (self.carried[post.number], values)]

    def merge(self, node: int, models: Sequence[tuple[int, Values]]) -> None:
        """The own model counts by its age; the first time as much as a received one does on average."""
        own, ages = float(self.age[node]), [float(age) for age, _ in models]
        if self.weights == "average" or own + sum(ages) == 0:
            own, ages = 1.0, [1.0] * len(models)
        elif own == 0:
            own = float(np.mean(ages))
            self.first += 1
        total = own * self.x[node] + sum(age * values for age, (_, values) in zip(ages, models, strict=True))
        self.x[node] = total / (own + sum(ages))
        self.age[node] = max(self.age[node], *(age for age, _ in models))
        self.is_training[node] = True
        self.merged_at_once = max(self.merged_at_once, len(models))

    def begins(self, node: int) -> None:
        assert self.is_training[node], "it trains what it has not merged"

    def trained(self, node: int, change: Values, steps: int) -> None:
        self.x[node] += change
        self.age[node] += steps
        self.is_training[node] = False
        if self.waiting[node]:
            self.merge(node, self.waiting.pop(node))

    def ends(self, trace: Sequence[Event]) -> None:
        """Periods are as long as asked, wherever they began, and each has its exchange."""
        assert not self.owed
        assert self.world.graph is not None
        assert all(event.to in self.world.graph[event.node] for event in trace if isinstance(event, Posted))
        ends: dict[int, list[float]] = defaultdict(list)
        for event in trace:
            if isinstance(event, RoundOver):
                ends[event.node].append(event.t)
        first = [times[0] for times in ends.values()]
        assert all(np.allclose(np.diff(times), PERIOD_S) for times in ends.values())
        assert len(set(first)) == len(first)
        assert max(first) < 2 * PERIOD_S
        requests = sum(isinstance(event, Posted) and not event.message.payload for event in trace)
        assert (requests > 100) == (self.mode != "push")


@pytest.mark.parametrize("mode", ["push", "pull", "push-pull"])
@pytest.mark.parametrize("weights", ["age", "average"])
@pytest.mark.parametrize("busy", ["latest", "queue"])
def test_gossip(mode: str, weights: str, busy: str) -> None:
    options: dict[str, object] = {"mode": mode, "weights": weights, "busy": busy, "period": PERIOD_S}
    world = uneven_world({"name": "gossip", **options}, UNEVEN, until_s=1.4)
    second = Gossip(world, mode=mode, weights=weights, busy=busy)
    agree(second)
    assert second.left_out > 5 or busy == "queue"
    assert second.merged_at_once > 1 or busy == "latest"
    assert second.spared > 5 or mode == "push"


@pytest.mark.parametrize("busy", ["latest", "queue"])
def test_a_model_of_age_0_is_not_overwritten(busy: str) -> None:
    """Two nodes hear nothing for so long that the first model they get has been trained."""
    options: dict[str, object] = {"mode": "push", "busy": busy, "period": PERIOD_S}
    world = uneven_world({"name": "gossip", **options}, UNEVEN, until_s=1.6)
    world.lost = lambda _sender, to, message: to in (0, 4) and message.round < 6
    second = Gossip(world, mode="push", weights="age", busy=busy)
    agree(second)
    assert second.first == 2
