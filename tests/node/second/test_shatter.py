"""Shatter: virtual node c sends chunk c to its r neighbours; x_p = (x_p + sum of v_p) / (1 + their number).

Number v * k + c in a message stands for chunk c, sent to virtual node v of the recipient.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.fragments import Cut, average, number_of
from tests.node.second.trace import Event, Posted, of_one_round, uneven_world
from tests.node.small_world import World


class Shatter(Second):
    def __init__(self, world: World, k: int, r: int) -> None:
        super().__init__(world)
        self.k, self.r, self.cut = k, r, Cut(k, world.dimension)
        self.sent: dict[tuple[int, int], list[Posted]] = defaultdict(list)
        """Chunks that leave a node, by sender and round."""
        self.here: dict[tuple[int, int], list[tuple[Posted, Values]]] = defaultdict(list)
        """Chunks of other nodes, by recipient and round."""
        self.to_itself = 0

    def carries(self, post: Posted) -> Values:
        self.cut.see(post, self.x[post.node])
        self.sent[post.node, post.message.round].append(post)
        return self.x[post.node][self.cut.places(post)]

    def arrives(self, post: Posted, values: Values | None) -> None:
        assert values is not None
        self.here[post.to, post.message.round].append((post, values))

    def round_over(self, node: int, round_: int) -> None:
        """A chunk that does not leave a node goes to another one of its own virtual nodes."""
        chunks = [(self.cut.places(post), values) for post, values in self.here.pop((node, round_))]
        sent = Counter(number_of(post) % self.k for post in self.sent[node, round_])
        for chunk, places in enumerate(self.cut.all_places()):
            own = self.r - sent[chunk]
            assert own >= 0
            chunks.extend([(places, self.x[node][places])] * own)
            self.to_itself += own
        assert len(chunks) == self.k * self.r
        self.x[node] = average(self.x[node], chunks)

    def ends(self, trace: Sequence[Event]) -> None:
        """Virtual nodes are each other's neighbours, in another graph every round."""
        self.cut.is_complete()
        graphs: dict[int, set[frozenset[tuple[int, int]]]] = defaultdict(set)
        edges: dict[int, set[tuple[tuple[int, int], tuple[int, int]]]] = defaultdict(set)
        for (_, round_), posts in of_one_round(trace, lambda _: True).items():
            for post in posts:
                one, other = (post.node, number_of(post) % self.k), (post.to, number_of(post) // self.k)
                assert (one, other) not in edges[round_]
                edges[round_].add((one, other))
                graphs[round_].add(frozenset({one, other}))
        assert all((other, one) in its for its in edges.values() for one, other in its)
        assert len({frozenset(graph) for graph in graphs.values()}) > 10


@pytest.mark.parametrize(("k", "r"), [(1, 3), (2, 4), (4, 2), (3, 5)])
def test_shatter(k: int, r: int) -> None:
    world = uneven_world({"name": "shatter", "virtual_nodes": k, "degree": r}, rounds=20, rate_bps=4e5)
    second = Shatter(world, k, r)
    agree(second)
    assert (second.to_itself > 5) == (k > 1)
