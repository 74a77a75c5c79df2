"""SWIFT: broadcast x, compute the change at x, average with the newest models of all neighbours, add the change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from testbed.node.messages import Message
from tests.node.second.beside import Second, Values, agree
from tests.node.second.trace import HEXAGON, NODES, UNEVEN, Event, Posted, Started, of_one_round, uneven_world
from tests.node.small_world import Graph, World

Weights = dict[frozenset[int], float]


def ccs(graph: Graph) -> Weights:
    """Highest degree first, a node gives each open edge an equal share of what it has left; equals take the smaller."""
    weights: Weights = {}
    degrees = [len(others) for others in graph]

    def share(node: int, given: Weights) -> float:
        edges = [frozenset({node, other}) for other in graph[node]]
        is_open = [edge for edge in edges if edge not in given]
        return float((1 - sum(given.get(edge, 0.0) for edge in edges)) / (len(is_open) + 1))

    for degree in sorted(set(degrees), reverse=True):
        given = dict(weights)
        for node in [each for each, its in enumerate(degrees) if its == degree]:
            for other in graph[node]:
                edge = frozenset({node, other})
                if edge not in given:
                    equal = degrees[other] == degree
                    weights[edge] = min(share(node, given), share(other, given)) if equal else share(node, given)
    return weights


class Swift(Second):
    def __init__(self, world: World, *, steps_between: int = 1, memory: bool = True, boost: bool = False) -> None:
        super().__init__(world)
        assert world.graph is not None
        self.graph, self.weights = world.graph, ccs(world.graph)
        self.steps_between, self.memory, self.boost = steps_between, memory, boost
        self.c = [0] * NODES
        self.last = {
            (node, other): (-1, self.x[other].copy()) for node in self.learners for other in self.graph[node] if memory
        }
        """The newest known model of a neighbour, with its iteration."""
        self.missing = 0

    def carries(self, post: Posted) -> Values | None:
        return self.x[post.node] if post.message.payload else None

    def arrives(self, post: Posted, values: Values | None) -> None:
        if values is not None:
            place = (post.to, post.node)
            if place not in self.last or post.message.round >= self.last[place][0]:
                self.last[place] = (post.message.round, values)

    def trained(self, node: int, change: Values, steps: int) -> None:  # noqa: ARG002
        self.c[node] += 1
        if self.c[node] % self.steps_between == 0:
            self.x[node] = self.average(node)
        self.x[node] = self.x[node] + change

    def ends(self, trace: Sequence[Event]) -> None:
        for (node, round_), posts in of_one_round(trace, lambda post: bool(post.message.payload)).items():
            if round_ != self.world.rounds:  # the copies of the last model come after the rounds
                assert sorted(post.to for post in posts) == sorted(self.graph[node])

    def average(self, node: int) -> Values:
        known = {other: self.last[node, other][1] for other in self.graph[node] if (node, other) in self.last}
        self.missing += len(self.graph[node]) - len(known)
        weight = {other: self.weights[frozenset({node, other})] for other in self.graph[node]}
        own = 1 - sum(weight.values())
        total = own + sum(weight[other] for other in known)
        if self.graph is HEXAGON:
            assert np.isclose(total, (len(known) + 1) / (2 + 1))
        if self.boost:
            own, weight = own / total, {other: weight[other] / total for other in known}
        else:
            own += 1 - total
        if not self.memory:
            for other in known:
                del self.last[node, other]
        return own * self.x[node] + sum((weight[other] * values for other, values in known.items()), 0 * self.x[node])


OPTIONS: list[dict[str, object]] = [
    {},
    {"steps_between": 2},
    {"memory": False},
    {"memory": False, "boost": True},
    {"memory": False, "boost": True, "steps_between": 2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("graph", [HEXAGON, UNEVEN], ids=["even", "uneven"])
def test_swift(graph: Graph, options: dict[str, object]) -> None:
    world = uneven_world({"name": "swift", **options}, graph, lost=every_third_model)
    second = Swift(world, **options)  # type: ignore[arg-type]
    outbox_keeps_the_newest(agree(second))
    assert (second.missing > 10) == (not second.memory)


def every_third_model(sender: int, to: int, message: Message) -> bool:
    return bool(message.payload) and (sender + to + message.round) % 3 == 0


def outbox_keeps_the_newest(trace: list[Event]) -> None:
    """What begins to leave is the newest that was posted for its recipient."""
    newest: dict[tuple[int, int, str], int] = {}
    for event in trace:
        if isinstance(event, Posted):
            newest[event.node, event.to, event.message.kind] = event.number
        elif isinstance(event, Started):
            assert newest[event.post.node, event.post.to, event.post.message.kind] == event.post.number


@pytest.mark.parametrize("graph", [HEXAGON, UNEVEN], ids=["even", "uneven"])
def test_on_slow_links(graph: Graph) -> None:
    agree(Swift(uneven_world({"name": "swift"}, graph, rate_bps=1.2e4)))


def test_the_weights_are_doubly_stochastic() -> None:
    for graph in (HEXAGON, UNEVEN):
        weights = ccs(graph)
        sums = np.array([sum(weights[frozenset({node, other})] for other in graph[node]) for node in range(NODES)])
        assert (sums < 1).all()
    assert set(ccs(HEXAGON).values()) == {1 / 3}
