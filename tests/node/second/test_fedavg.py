"""FedAvg: the server's model is the sum of p_k x_k over the clients of a round."""

from __future__ import annotations

from math import ceil

import pytest

from tests.node.second.beside import Second, Values, agree
from tests.node.second.trace import NODES, Posted, uneven_world
from tests.node.small_world import World

SERVER = 0


class FedAvg(Second):
    def __init__(
        self, world: World, participation: float, over_selection: float, *, weighted: bool, has_deadline: bool
    ) -> None:
        super().__init__(world)
        self.needed = ceil(participation * NODES)
        self.clients = min(NODES, ceil(self.needed * over_selection))
        self.weighted, self.has_deadline = weighted, has_deadline
        self.asked: dict[int, set[int]] = {}
        """By round."""
        self.downloaded: dict[int, Values] = {}
        """What a client trains next: the newest model that it has been sent."""
        self.updates: list[tuple[int, Values]] = []
        """Of the round that goes on, in the order of arrival."""
        self.round = 0
        self.missed = 0

    def carries(self, post: Posted) -> Values | None:
        if post.node == SERVER and post.message.payload:
            self.asked.setdefault(post.message.round, set()).add(post.to)
        return self.x[post.node] if post.message.payload else None

    def arrives(self, post: Posted, values: Values | None) -> None:
        if values is None:
            return
        if post.to != SERVER:
            self.downloaded[post.to] = values
        elif post.message.round == self.round and len(self.updates) < self.needed:
            self.updates.append((post.node, values))

    def begins(self, node: int) -> None:
        self.x[node] = self.downloaded.pop(node)

    def round_over(self, node: int, round_: int) -> None:
        if node != SERVER:
            return
        assert round_ == self.round
        assert len(self.asked[round_]) == self.clients
        assert self.has_deadline or len(self.updates) == self.needed
        self.missed += self.needed - len(self.updates)
        samples = {client: self.world.samples(client - 1) if self.weighted else 1 for client, _ in self.updates}
        if self.updates:
            self.x[SERVER] = sum(
                (samples[client] * values for client, values in self.updates), 0 * self.x[SERVER]
            ) / sum(samples.values())
        self.round, self.updates = round_ + 1, []


@pytest.mark.parametrize(
    ("participation", "over_selection", "weighted", "deadline"),
    [
        (1.0, 1.0, True, None),
        (0.5, 1.0, False, None),
        (0.5, 1.6, True, None),
        (0.5, 1.6, True, 0.11),
    ],
)
def test_federated_averaging(
    participation: float, over_selection: float, weighted: bool, deadline: float | None
) -> None:
    options = {"participation": participation, "over_selection": over_selection, "weighted": weighted}
    if deadline is not None:
        options["deadline"] = deadline
    world = uneven_world({"name": "fedavg", **options}, server=True, rounds=30)
    second = FedAvg(world, participation, over_selection, weighted=weighted, has_deadline=deadline is not None)
    agree(second, nodes=[SERVER], rounds=30)
    assert (second.missed > 5) == (deadline is not None)
