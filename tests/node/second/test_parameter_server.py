"""The parameter server: x = x - lr mean(g), or with every single gradient x = x - lr s(age) g."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.trace import NODES, Posted, uneven_world
from tests.node.small_world import World

SERVER = 0


class ParameterServer(Second):
    """In rounds, by the mean of all gradients."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.computed: dict[int, Values] = {}
        self.gradients: list[Values] = []

    def change(self, node: int, first_step: int, steps: int) -> Values:
        assert steps == 1
        return self.slope(node, self.x[node], first_step)

    def trained(self, node: int, change: Values, steps: int) -> None:  # noqa: ARG002
        self.computed[node] = change

    def carries(self, post: Posted) -> Values | None:
        if not post.message.payload:
            return None
        if post.node != SERVER:
            return self.computed.pop(post.node)
        self.answers(post.to)
        return self.x[SERVER]

    def answers(self, worker: int) -> None:
        """A worker gets the server's model."""

    def arrives(self, post: Posted, values: Values | None) -> None:
        if values is None:
            return
        if post.to != SERVER:
            self.x[post.to] = values
        else:
            self.steps_by(post.node, values)

    def steps_by(self, worker: int, gradient: Values) -> None:  # noqa: ARG002
        self.gradients.append(gradient)

    def round_over(self, node: int, round_: int) -> None:  # noqa: ARG002
        if node == SERVER:
            assert len(self.gradients) == NODES
            self.x[SERVER] = self.x[SERVER] - self.world.lr * np.mean(self.gradients, axis=0)
            self.gradients = []


class Asynchronous(ParameterServer):
    """With every gradient as it comes."""

    def __init__(self, world: World, *, damped: bool, max_lead: int | None) -> None:
        super().__init__(world)
        self.damped, self.max_lead = damped, max_lead
        self.version = 0
        self.version_at: dict[int, int] = {}
        """Which version a worker has."""
        self.count = Counter(dict.fromkeys(self.learners, 0))
        self.waiting: set[int] = set()
        """For an answer."""
        self.waited = 0
        self.oldest = 0
        self.is_over = False

    def answers(self, worker: int) -> None:
        self.version_at[worker] = self.version
        self.waiting.discard(worker)
        assert not self.is_too_far_ahead(worker)

    def is_too_far_ahead(self, worker: int) -> bool:
        return self.max_lead is not None and self.count[worker] - min(self.count.values()) > self.max_lead

    def steps_by(self, worker: int, gradient: Values) -> None:
        if self.is_over:
            return
        assert all(self.is_too_far_ahead(each) for each in self.waiting)
        age = self.version - self.version_at[worker]
        self.oldest = max(self.oldest, age)
        self.x[SERVER] = self.x[SERVER] - self.world.lr * (1 / (1 + age) if self.damped else 1) * gradient
        self.version += 1
        self.count[worker] += 1
        self.waiting.add(worker)
        self.waited += self.is_too_far_ahead(worker)

    def round_over(self, node: int, round_: int) -> None:
        if node == SERVER:
            assert self.version == (round_ + 1) * NODES
            self.is_over = round_ + 1 == self.world.rounds


def test_synchronous() -> None:
    agree(ParameterServer(uneven_world({"name": "parameter-server"}, server=True)), nodes=range(NODES + 1))


@pytest.mark.parametrize(("damping", "max_lead"), [("none", None), ("staleness", None), ("staleness", 2)])
def test_asynchronous(damping: str, max_lead: int | None) -> None:
    options: dict[str, object] = {"mode": "async", "damping": damping}
    if max_lead is not None:
        options["max_lead"] = max_lead
    world = uneven_world({"name": "parameter-server", **options}, server=True, lr=0.02)
    second = Asynchronous(world, damped=damping == "staleness", max_lead=max_lead)
    agree(second, nodes=[SERVER])
    assert second.oldest > 5
    assert (second.waited > 5) == (max_lead is not None)
