"""Teleportation: position p of A_t trains the model of position p of A_(t-1), and averages with neighbours.

Which nodes are active, and where they stand, is drawn: each model that is handed on says so. What is checked is that
each model goes to a node of its own, and that the same positions average in every round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.trace import Event, Posted, uneven_world, watched
from tests.node.small_world import World


class Teleportation(Second):
    def __init__(self, world: World, active: int, graph: str) -> None:
        super().__init__(world)
        self.active, self.graph = active, graph
        self.round = dict.fromkeys(self.nodes, 0)
        self.handed_on: dict[int, dict[int, Values]] = defaultdict(dict)
        """What a node trains in its next turns, by round."""
        self.met: dict[tuple[int, int], dict[int, Values]] = defaultdict(dict)
        """Models of neighbours, by node and round."""
        self.averaged: dict[tuple[int, int], set[int]] = {}
        """With whom, by node and round."""
        self.passes: dict[int, dict[int, int]] = defaultdict(dict)
        """From whom to whom, by the round of the recipients."""

    def begins(self, node: int) -> None:
        if self.handed_on[node]:
            self.round[node] = min(self.handed_on[node])
            self.x[node] = self.handed_on[node].pop(self.round[node])

    def carries(self, post: Posted) -> Values | None:
        if post.message.kind == "handed-on":
            self.round_over(post.node, post.message.round - 1)
            assert self.passes[post.message.round].setdefault(post.node, post.to) == post.to
        return self.x[post.node] if post.message.payload else None

    def arrives(self, post: Posted, values: Values | None) -> None:
        if values is not None:
            if post.message.kind == "handed-on":
                self.handed_on[post.to][post.message.round] = values
            else:
                self.met[post.to, post.message.round][post.node] = values

    def round_over(self, node: int, round_: int) -> None:
        if (node, round_) in self.averaged:
            return
        assert self.round[node] == round_
        theirs = self.met.pop((node, round_), {})
        assert len(theirs) == (self.active - 1 if self.graph == "full" else min(2, self.active - 1))
        self.averaged[node, round_] = set(theirs)
        self.x[node] = (self.x[node] + sum(theirs.values())) / (1 + len(theirs))

    def ends(self, trace: Sequence[Event]) -> None:  # noqa: ARG002
        """Positions go from a node to the one that it hands its model to; the same positions always meet."""
        assert self.world.rounds is not None
        at = {node: node for node, round_ in self.averaged if round_ == 0}  # called as the node that begins there
        met_first = {at[node]: self.averaged[node, 0] for node in at}
        drawn = set()
        for round_ in range(self.world.rounds):
            assert len(at) == self.active
            assert set(at) == {node for node, of in self.averaged if of == round_}
            drawn.add(frozenset(at))
            for node, position in at.items():
                assert {at[other] for other in self.averaged[node, round_]} == met_first[position]
            if round_ + 1 < self.world.rounds:
                assert set(self.passes[round_ + 1]) == set(at)
                at = {self.passes[round_ + 1][node]: position for node, position in at.items()}
        assert len(drawn) > 3


@pytest.mark.parametrize(("active", "graph"), [(4, "ring"), (4, "full"), (5, "ring"), (2, "ring"), (1, "ring")])
def test_teleportation(active: int, graph: str) -> None:
    world = uneven_world({"name": "teleportation", "active": active, "graph": graph}, rounds=30)
    agree(Teleportation(world, active, graph), rounds=2)


def test_a_node_that_has_had_its_last_turn_is_not_skipped() -> None:
    """Its note that the model was handed on has arrived before it is known to have finished."""
    trace = watched(uneven_world({"name": "teleportation", "active": 4}, rounds=9))
    assert not [event for event in trace if isinstance(event, Posted) and event.message.kind == "turn-skipped"]
