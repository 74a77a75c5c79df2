"""Mosaic: epidemic learning in which each fragment has drawn recipients of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.fragments import Cut, average
from tests.node.second.trace import Event, Posted, of_one_round, uneven_world
from tests.node.small_world import World

FANOUT = 3
"""log2 of 6, rounded up."""
Sent = tuple[int, int, object]
"""Sender, round and part of a fragment."""


class Mosaic(Second):
    def __init__(self, world: World, fragments: int, *, with_timeout: bool = False) -> None:
        super().__init__(world)
        self.cut = Cut(fragments, world.dimension)
        self.with_timeout = with_timeout
        self.here: dict[int, list[tuple[Posted, Values]]] = defaultdict(list)
        self.mixed: dict[tuple[int, int], set[Sent]] = {}
        self.of_other_rounds = 0

    def carries(self, post: Posted) -> Values | None:
        if not post.message.payload:
            return None
        self.cut.see(post, self.x[post.node])
        return self.x[post.node][self.cut.places(post)]

    def arrives(self, post: Posted, values: Values | None) -> None:
        if values is not None:
            self.here[post.to].append((post, values))

    def round_over(self, node: int, round_: int) -> None:
        taken = [each for each in self.here[node] if self.with_timeout or each[0].message.round == round_]
        self.here[node] = [each for each in self.here[node] if each not in taken]
        self.x[node] = average(self.x[node], [(self.cut.places(post), values) for post, values in taken])
        self.mixed[node, round_] = {_sent(post) for post, _ in taken}
        self.of_other_rounds += sum(post.message.round != round_ for post, _ in taken)

    def ends(self, trace: Sequence[Event]) -> None:
        self.cut.is_complete()
        due: dict[tuple[int, int], set[Sent]] = defaultdict(set)
        for (node, round_), posts in of_one_round(trace, lambda post: bool(post.message.payload)).items():
            parts: dict[object, list[int]] = defaultdict(list)
            for post in posts:
                parts[post.message.fields["part"]].append(post.to)
                due[post.to, round_].add(_sent(post))
            assert set(parts) == set(range(self.cut.parts))
            assert all(len(set(drawn) - {node}) == len(drawn) == FANOUT for drawn in parts.values())
        if not self.with_timeout:
            assert all(mixed == due[place] for place, mixed in self.mixed.items())


def _sent(post: Posted) -> Sent:
    return post.node, post.message.round, post.message.fields["part"]


@pytest.mark.parametrize("fragments", [1, 4])
@pytest.mark.parametrize("end", ["expected", "notify"])
def test_mosaic(fragments: int, end: str) -> None:
    world = uneven_world({"name": "mosaic", "fragments": fragments, "round_end": end}, rounds=20, rate_bps=4e5)
    agree(Mosaic(world, fragments))


def test_with_a_timeout() -> None:
    options = {"fragments": 4, "round_end": "timeout", "timeout": 0.06}
    second = Mosaic(uneven_world({"name": "mosaic", **options}, rounds=20, rate_bps=4e5), 4, with_timeout=True)
    agree(second)
    assert second.of_other_rounds > 10
