"""Follows a trace with a second implementation, and compares what both have computed.

Takes a trace; touches nothing. What a message carried and what a model was is compared, never used: only who, when and
which part are taken from the trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.node.second.trace import Arrived, Began, Event, Posted, RoundOver, Started, Trained, watched
from tests.node.small_world import Quadratic, World

Values = NDArray[np.float64]
CLOSE = 1e-5


class Second:
    """One algorithm, told what happened; a subclass has its formula."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.nodes = range(world.size)
        self.learners = range(int(world.server), int(world.server) + world.learners)
        assert world.first_model is not None
        first = world.first_model(0).astype(np.float64)
        self.x: dict[int, Values] = {rank: first.copy() if rank in self.learners else 0 * first for rank in self.nodes}
        """The models. Only learners begin with the world's first one."""
        self.now = 0.0

    # -- what a subclass says --------------------------------------------------------------------------------------

    def begins(self, node: int) -> None:
        """A node begins to train its model as it is after this."""

    def trained(self, node: int, change: Values, steps: int) -> None:  # noqa: ARG002
        """Training is over; `change` is what it made of the model that the node had at its begin."""
        self.x[node] += change

    def carries(self, post: Posted) -> Values | None:
        """What a message carries that is posted now; None if nothing but fields."""
        raise NotImplementedError

    def arrives(self, post: Posted, values: Values | None) -> None:
        """A message has arrived, with what it carried by the formula."""

    def round_over(self, node: int, round_: int) -> None:
        """The round of a node is over; its model is compared after this."""

    def ends(self, trace: Sequence[Event]) -> None:
        """The trace is over: time to judge what was drawn in it."""

    # -- the minibatches, which both have in common ----------------------------------------------------------------

    def slope(self, node: int, at: Values, step: int) -> Values:
        """The gradient of a minibatch."""
        problem = Quadratic(self.world, None, node - int(self.world.server))  # type: ignore[arg-type]
        return problem.slope(at.astype(np.float32), step).astype(np.float64)

    def change(self, node: int, first_step: int, steps: int) -> Values:
        """What local steps make of the node's model as it is now."""
        trained = self.x[node].copy()
        for step in range(first_step, first_step + steps):
            trained -= self.world.lr * self.slope(node, trained, step)
        return trained - self.x[node]

    # -- following -------------------------------------------------------------------------------------------------

    def follow(self, trace: Sequence[Event]) -> Compared:
        compared = Compared()
        carried: dict[int, Values | None] = {}
        changes: dict[int, Values] = {}
        for event in trace:
            self.now = event.t
            match event:
                case Began(_, node, first_step, steps):
                    self.begins(node)
                    changes[node] = self.change(node, first_step, steps)
                case Trained(_, node, _):
                    self.trained(node, changes.pop(node), event.steps)
                case Posted():
                    values = self.carries(event)
                    carried[event.number] = None if values is None else values.copy()
                    compared.message(event, values)
                case Started():
                    pass
                case Arrived(_, post):
                    self.arrives(post, carried[post.number])
                case RoundOver(_, node, round_, _):
                    self.round_over(node, round_)
                    compared.model(event, self.x[node])
        self.ends(trace)
        return compared


class Compared:
    """How many messages and models were compared."""

    def __init__(self) -> None:
        self.messages = 0
        self.rounds: Counter[int] = Counter()
        """By node."""

    def message(self, post: Posted, values: Values | None) -> None:
        payload, where = post.message.payload, f"at {post.t:.4f}: {post.node} to {post.to}: {post.message.kind}"
        if values is None:
            assert payload == (), where
            return
        assert len(payload) == 1, where
        assert payload[0].dtype == np.float32, where
        _equal(payload[0].view(np.float32), values, f"{where} {post.message.fields}")
        self.messages += 1

    def model(self, over: RoundOver, model: Values) -> None:
        where = f"at {over.t:.4f}: node {over.node}, round {over.round}"
        _equal(over.model, model, where)
        self.rounds[over.node] += 1


def _equal(first: NDArray[np.floating], second: Values, where: str) -> None:
    if first.shape != second.shape or not np.abs(first - second).max() <= CLOSE:
        np.testing.assert_allclose(first, second, rtol=0, atol=CLOSE, err_msg=where)


def agree(second: Second, *, nodes: Iterable[int] | None = None, rounds: int = 20) -> list[Event]:
    """Both implementations agree in everything, for at least so many rounds of each node; gives the trace."""
    trace = watched(second.world)
    compared = second.follow(trace)
    for node in second.learners if nodes is None else nodes:
        assert compared.rounds[node] >= rounds, f"node {node} has only {compared.rounds[node]} rounds"
    assert compared.messages >= rounds
    return trace
