"""AD-PSGD: pairs average, x = (x + y) / 2 on the passive side, x = x + (y - what was sent) / 2 on the active one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.trace import HEXAGON, PENTAGON, UNEVEN, Event, Posted, uneven_world
from tests.node.small_world import Graph, World, full

Exchange = tuple[int, str]
"""The active node, and the number of the exchange."""


class ADPSGD(Second):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.asked: dict[Exchange, Values] = {}
        """What the active node has sent, of exchanges that it has not finished."""
        self.answered: dict[Exchange, Values] = {}
        """The passive node's model before it averaged."""
        self.finished: set[Exchange] = set()
        self.partner: dict[Exchange, int] = {}
        self.repeated = 0

    def carries(self, post: Posted) -> Values | None:
        number = str(post.message.fields.get("number"))
        match post.message.kind:
            case "request":
                exchange = (post.node, number)
                assert exchange not in self.finished
                self.repeated += exchange in self.asked
                assert self.partner.setdefault(exchange, post.to) == post.to
                return self.asked.setdefault(exchange, self.x[post.node].copy())
            case "reply":
                return self.answered[post.to, number]
        return None

    def arrives(self, post: Posted, values: Values | None) -> None:
        if values is None:
            return
        number = str(post.message.fields["number"])
        if post.message.kind == "request":
            exchange = (post.node, number)
            if exchange not in self.answered:
                self.answered[exchange] = self.x[post.to].copy()
                self.x[post.to] = (self.x[post.to] + values) / 2
        elif (post.to, number) not in self.finished:
            exchange = (post.to, number)
            self.finished.add(exchange)
            self.x[post.to] = self.x[post.to] + (values - self.asked.pop(exchange)) / 2

    def ends(self, trace: Sequence[Event]) -> None:  # noqa: ARG002
        assert self.world.graph is not None
        active = {node for node, _ in self.partner}
        passive = set(self.partner.values())
        assert not active & passive
        assert active | passive == set(self.learners)
        assert all(to in self.world.graph[node] for (node, _), to in self.partner.items())
        assert len(self.finished) > 40


@pytest.mark.parametrize("exchanges", [1, 2, "free"])
@pytest.mark.parametrize("graph", [HEXAGON, UNEVEN, full(6)], ids=["even", "uneven", "full"])
def test_adpsgd(graph: Graph, exchanges: int | str) -> None:
    second = ADPSGD(uneven_world({"name": "adpsgd", "exchanges_per_iter": exchanges}, graph, until_s=2.0))
    agree(second)


@pytest.mark.parametrize("exchanges", [1, "free"])
def test_on_an_odd_ring(exchanges: int | str) -> None:
    world = uneven_world({"name": "adpsgd", "exchanges_per_iter": exchanges}, PENTAGON, learners=5, until_s=2.0)
    agree(ADPSGD(world))


@pytest.mark.parametrize("exchanges", [1, 2, "free"])
@pytest.mark.parametrize("kind", ["request", "reply"])
def test_a_lost_message_is_repeated_and_counts_once(kind: str, exchanges: int | str) -> None:
    options: dict[str, object] = {"timeout": 0.15, "exchanges_per_iter": exchanges}
    world = uneven_world({"name": "adpsgd", **options}, HEXAGON, until_s=2.6, seed=1)
    number = count()
    world.lost = lambda _sender, _to, message: message.kind == kind and next(number) % 3 == 0
    second = ADPSGD(world)
    agree(second)
    assert second.repeated > 5


def test_to_the_end_of_the_rounds() -> None:
    world = uneven_world({"name": "adpsgd"}, HEXAGON)
    second = ADPSGD(world)
    agree(second)
    assert not second.asked
