"""D-PSGD: train, exchange with all neighbours, x = w_ii x + sum of w_ij x_j, by Metropolis and Hastings."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.trace import HEXAGON, NODES, UNEVEN, Posted, uneven_world
from tests.node.small_world import Graph, World


class DPSGD(Second):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.sent: dict[tuple[int, int], set[int]] = defaultdict(set)
        """To whom, by sender and round."""
        self.here: dict[tuple[int, int], dict[int, Values]] = defaultdict(dict)
        """Models by sender, by recipient and round."""

    def carries(self, post: Posted) -> Values:
        self.sent[post.node, post.message.round].add(post.to)
        return self.x[post.node]

    def arrives(self, post: Posted, values: Values | None) -> None:
        assert values is not None
        self.here[post.to, post.message.round][post.node] = values

    def round_over(self, node: int, round_: int) -> None:
        theirs, mine = self.here.pop((node, round_)), self.sent[node, round_]
        assert set(theirs) == mine == self.neighbours(node, mine)
        weights = {other: 1 / (1 + max(len(mine), len(self.sent[other, round_]))) for other in theirs}
        own = 1 - sum(weights.values())
        self.x[node] = own * self.x[node] + sum(weights[other] * theirs[other] for other in theirs)

    def neighbours(self, node: int, drawn: set[int]) -> set[int]:
        if self.world.graph is not None:
            return set(self.world.graph[node])
        assert len(drawn) == self.world.degree
        return drawn


@pytest.mark.parametrize("graph", [HEXAGON, UNEVEN])
def test_on_a_static_overlay(graph: Graph) -> None:
    agree(DPSGD(uneven_world({"name": "dpsgd"}, graph)))


def test_on_a_new_overlay_every_round() -> None:
    agree(DPSGD(uneven_world({"name": "dpsgd"}, degree=3)))


def test_with_the_neighbours_of_a_peer_sampler() -> None:
    agree(DPSGD(uneven_world({"name": "dpsgd"}, degree=3, sampler=NODES)))


@pytest.mark.parametrize("graph", [HEXAGON, UNEVEN], ids=["even", "uneven"])
def test_other_weights_are_noticed(graph: Graph) -> None:
    class Plain(DPSGD):
        """With the plain mean, which is the same on regular overlays only."""

        def round_over(self, node: int, round_: int) -> None:
            theirs = self.here.pop((node, round_)).values()
            self.x[node] = (self.x[node] + sum(theirs)) / (1 + len(theirs))

    second = Plain(uneven_world({"name": "dpsgd"}, graph))
    if graph is HEXAGON:
        agree(second)
    else:
        with pytest.raises(AssertionError, match="round 0"):
            agree(second)
