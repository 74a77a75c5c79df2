"""What happens in a small world, as events in their order.

Takes a world, runs it, gives the trace; touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from testbed.node.kinds import RESERVED
from testbed.node.life import Reason
from testbed.node.messages import Message
from testbed.node.world import Vector
from tests.node.small_world import Graph, Outcome, World

NODES = 6
HEXAGON: Graph = [[1, 5], [0, 2], [1, 3], [2, 4], [3, 5], [0, 4]]
PENTAGON: Graph = [[1, 4], [0, 2], [1, 3], [2, 4], [0, 3]]
UNEVEN: Graph = [[1, 2, 3], [0, 2], [0, 1, 3, 5], [0, 2, 4], [3], [2]]


@dataclass(frozen=True, eq=False)
class Posted:
    """A node puts a message for one recipient into its outbox."""

    t: float
    node: int
    to: int
    number: int
    """Its own, among all that are posted."""
    letter: int
    """The same for all recipients of one `send`."""
    message: Message


@dataclass(frozen=True, eq=False)
class Started:
    """A message begins to leave."""

    t: float
    post: Posted


@dataclass(frozen=True, eq=False)
class Arrived:
    """A message has arrived."""

    t: float
    post: Posted


@dataclass(frozen=True, eq=False)
class Began:
    """A node begins to train, or to compute a gradient."""

    t: float
    node: int
    first_step: int
    steps: int


@dataclass(frozen=True, eq=False)
class Trained:
    """A node has trained, or computed a gradient."""

    t: float
    node: int
    steps: int


@dataclass(frozen=True, eq=False)
class RoundOver:
    """A node's round is over."""

    t: float
    node: int
    round: int
    model: Vector


Event = Posted | Started | Arrived | Began | Trained | RoundOver


@dataclass
class Watch:
    """Writes down what a world tells."""

    world: World
    trace: list[Event] = field(default_factory=list)
    _letters: list[Message] = field(default_factory=list)
    _posts: dict[tuple[int, int], list[Posted]] = field(default_factory=dict)
    _moving: dict[tuple[int, int], Posted] = field(default_factory=dict)
    _number: int = 0

    def run(self) -> Outcome:
        world = self.world
        world.on_post, world.before_shipping, world.on_arrival = self._post, self._start, self._arrive
        world.on_training, world.on_round = self._train, self._round
        return world.run()

    @property
    def _now(self) -> float:
        assert self.world.clock is not None
        return self.world.clock.now()

    def _post(self, sender: int, to: int, message: Message) -> None:
        if message.kind in RESERVED:
            return
        if not self._letters or self._letters[-1] is not message:
            self._letters.append(message)
        post = Posted(self._now, sender, to, self._number, len(self._letters), message)
        self._number += 1
        self.trace.append(post)
        if to == sender:
            self.trace.append(Arrived(self._now, post))
        else:
            self._posts.setdefault((sender, to), []).append(post)

    def _start(self, sender: int, to: int, message: Message) -> None:
        if message.kind in RESERVED:
            self._moving.pop((sender, to), None)
            return
        posts = self._posts[sender, to]
        post = next(each for each in posts if each.message is message)
        posts.remove(post)
        self._moving[sender, to] = post  # at most one message of a node is under way to another
        self.trace.append(Started(self._now, post))

    def _arrive(self, sender: int, to: int, message: Message) -> None:
        if message.kind not in RESERVED:
            self.trace.append(Arrived(self._now, self._moving.pop((sender, to))))

    def _train(self, rank: int, first_step: int, steps: int, is_over: bool) -> None:
        now = self._now
        self.trace.append(Trained(now, rank, steps) if is_over else Began(now, rank, first_step, steps))

    def _round(self, rank: int, round_: int, model: Vector) -> None:
        self.trace.append(RoundOver(self._now, rank, round_, model.copy()))


def watched(world: World) -> list[Event]:
    """Runs a world, and gives what happened in it."""
    watch = Watch(world)
    outcome = watch.run()
    assert Reason.FAILED not in outcome.reasons, outcome.end(0)
    return watch.trace


def step_s(learner: int, step: int) -> float:
    """Nodes differ by a factor of two, steps by a tenth; no two nodes are ever ready at one instant."""
    return 0.02 * (1 + 0.2123 * learner) * (1 + 0.1 * ((step * 0.618034 + 0.31 * learner) % 1))


def latency_s(sender: int, to: int) -> float:
    return 0.004 + 0.03 * ((7 * sender + 3 * to) * 0.618034 % 1)


def first_model(_learner: int) -> Vector:
    """The same on all nodes, and not zero."""
    return np.random.default_rng(99).normal(size=23).astype(np.float32)


def uneven_world(
    algorithm: dict[str, object],
    graph: Graph | None = None,
    *,
    learners: int = NODES,
    rounds: int | None = 24,
    until_s: float | None = None,
    **chosen: object,
) -> World:
    """Nodes that are unlike each other; they stop after `rounds`, or together at a time."""
    world = World(
        learners,
        algorithm=algorithm,
        rounds=None if until_s is not None else rounds,
        graph=graph,
        dimension=23,
        steps=2,
        lr=0.15,
        noise=0.3,
        seed=5,
        step_s=step_s,
        latency_s=latency_s,
        rate_bps=1e5,
        first_model=first_model,
    )
    for name, value in chosen.items():
        assert hasattr(world, name), name
        setattr(world, name, value)
    if until_s is not None:
        world.experiment = {"stop": {"time": until_s}, **world.experiment}
        world.early = [(until_s, rank, Reason.STOPPED) for rank in range(world.size)]
    return world


def of_one_round(trace: Sequence[Event], has: Callable[[Posted], bool]) -> dict[tuple[int, int], list[Posted]]:
    """Those of a trace's messages that have something, by sender and round."""
    rounds: dict[tuple[int, int], list[Posted]] = {}
    for event in trace:
        if isinstance(event, Posted) and has(event):
            rounds.setdefault((event.node, event.message.round), []).append(event)
    return rounds


def in_order(trace: Sequence[Event]) -> bool:
    return all(one.t <= other.t for one, other in pairwise(trace))
