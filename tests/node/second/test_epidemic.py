"""Epidemic learning: train, send to s drawn nodes, take the plain mean of the own model and those that came."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.trace import Event, Posted, of_one_round, uneven_world
from tests.node.small_world import World

FANOUT = 3
"""log2 of 6, rounded up."""


class Epidemic(Second):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.here: dict[int, list[tuple[int, int, Values]]] = defaultdict(list)
        """Senders, rounds and models, by recipient."""
        self.mixed: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """Senders and rounds, by recipient and round."""
        self.of_other_rounds = 0

    def carries(self, post: Posted) -> Values | None:
        return self.x[post.node] if post.message.payload else None

    def arrives(self, post: Posted, values: Values | None) -> None:
        if values is not None:
            self.here[post.to].append((post.node, post.message.round, values))

    def is_taken(self, of_round: int, in_round: int) -> bool:
        return of_round == in_round

    def round_over(self, node: int, round_: int) -> None:
        taken = [each for each in self.here[node] if self.is_taken(each[1], round_)]
        self.here[node] = [each for each in self.here[node] if not self.is_taken(each[1], round_)]
        self.mixed[node, round_] = [(sender, of_round) for sender, of_round, _ in taken]
        self.x[node] = (self.x[node] + sum(values for _, _, values in taken)) / (1 + len(taken))

    def ends(self, trace: Sequence[Event]) -> None:
        drawn = of_one_round(trace, lambda post: bool(post.message.payload))
        for posts in drawn.values():
            assert len({post.to for post in posts} - {posts[0].node}) == len(posts) == FANOUT
        for (node, round_), mixed in self.mixed.items():
            due = {(sender, of) for (sender, of), posts in drawn.items() if node in [post.to for post in posts]}
            self.judge(set(mixed), {each for each in due if each[1] == round_}, round_)

    def judge(self, mixed: set[tuple[int, int]], due: set[tuple[int, int]], _round: int) -> None:
        assert mixed == due


class WithTimeout(Epidemic):
    """What has come by then, whatever its round."""

    def is_taken(self, of_round: int, in_round: int) -> bool:  # noqa: ARG002
        return True

    def judge(self, mixed: set[tuple[int, int]], due: set[tuple[int, int]], round_: int) -> None:  # noqa: ARG002
        self.of_other_rounds += sum(each[1] != round_ for each in mixed)


def test_oracle() -> None:
    agree(Epidemic(uneven_world({"name": "epidemic", "mode": "oracle"})))


@pytest.mark.parametrize("end", ["expected", "notify"])
def test_local(end: str) -> None:
    agree(Epidemic(uneven_world({"name": "epidemic", "mode": "local", "round_end": end})))


def test_local_with_a_timeout() -> None:
    second = WithTimeout(uneven_world({"name": "epidemic", "mode": "local", "round_end": "timeout", "timeout": 0.05}))
    agree(second)
    assert second.of_other_rounds > 10
