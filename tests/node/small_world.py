"""A small world for nodes to live in: virtual time, a simple network, and a model that needs no torch.

Takes a description of the world, gives journals and models; touches nothing. Each learner wants its parameters to be
near a point of its own; its gradients are noisy by learner and step, so that two algorithms can be given the same
minibatches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from pathlib import Path

import msgspec
import numpy as np

from testbed.experiment.language import Experiment
from testbed.journal import Journal
from testbed.node.life import Life, Reason
from testbed.node.messages import Message, from_frames
from testbed.node.node import Node
from testbed.node.sending import Tickets
from testbed.node.snapshots import newest_snapshot
from testbed.node.training_settings import Score
from testbed.node.world import Trained, Vector
from testbed.plan.model import NodePlan, PlannedNode, PlannedOverlay, PlannedViews, Role
from testbed.records import AnyRecord, Build, Count, End, Event, Record, Round, Start, line
from testbed.runtimes.sim.clock import VirtualClock, run

Graph = Sequence[Sequence[int]]
"""Neighbours, by position among the learners."""

BUILD = Build("0", "0", "none")


def full(n: int) -> Graph:
    return [[other for other in range(n) if other != node] for node in range(n)]


def ring(n: int) -> Graph:
    return [sorted({(node - 1) % n, (node + 1) % n} - {node}) for node in range(n)]


@dataclass
class World:
    """What the nodes, their network and their work are like."""

    learners: int
    algorithm: Mapping[str, object] = field(default_factory=lambda: {"name": "dpsgd"})
    rounds: int | None = 3
    graph: Graph | None = None
    """A static overlay; without it, a new regular one every round."""
    degree: int = 2
    sampler: int | None = None
    """Rank of the peer sampler; `learners` (+ 1 with a server) for a node that does nothing else."""
    views: PlannedViews | None = None
    """An overlay of views instead: `cyclon`."""
    server: bool = False
    """Whether rank 0 serves instead of learning."""
    experiment: Mapping[str, object] = field(default_factory=dict)
    """More of it."""
    lr: float = 0.1
    steps: int = 1
    dimension: int = 8
    noise: float = 0.1
    seed: int = 1
    first_model: Callable[[int], Vector] | None = None
    """By learner; without it all start from zero."""
    step_s: Callable[[int, int], float] = lambda _learner, _step: 0.01
    """How long a local step takes, by learner and step."""
    latency_s: Callable[[int, int], float] = lambda _sender, _to: 0.01
    rate_bps: float = 8e6
    lost: Callable[[int, int, Message], bool] = lambda _sender, _to, _message: False
    folders: Path | None = None
    """Where nodes keep snapshots, each in a folder called as its rank."""
    goes_on: int = 0
    """With the snapshots that are there, from this round on."""
    order: Sequence[int] | None = None
    """In which order nodes start, and messages arrive at one instant: nothing may depend on it."""
    early: Sequence[tuple[float, int, Reason]] = ()
    """When, and why, which node ends before it is done."""
    samples: Callable[[int], int] = lambda learner: 10 + learner
    on_arrival: Callable[[int, int, Message], None] = lambda _sender, _to, _message: None
    before_shipping: Callable[[int, int, Message], None] = lambda _sender, _to, _message: None
    on_post: Callable[[int, int, Message], None] = lambda _sender, _to, _message: None
    """Called when a message comes into the outbox of its sender."""
    on_training: Callable[[int, int, int, bool], None] = lambda _rank, _first_step, _steps, _is_over: None
    """Called when a node begins to train, or to compute a gradient, and when that is over."""
    on_round: Callable[[int, int, Vector], None] = lambda _rank, _round, _model: None
    """Called at the end of a node's round, with its model."""
    clock: VirtualClock | None = None
    """That of the latest run."""

    @property
    def size(self) -> int:
        extra = self.sampler is not None and self.sampler >= self.learners + self.server
        return self.learners + self.server + extra

    def run(self) -> Outcome:
        return _Running(self).run()


@dataclass
class Outcome:
    """What happened."""

    journals: list[bytes]
    reasons: list[Reason]
    models: list[Vector]
    """The last ones, by rank."""
    evaluated: dict[tuple[int, int], Vector]
    """By rank and round."""
    shipped: Count
    lost: Count
    late: Count
    """What arrived at nodes that had ended."""
    cut: Count
    """Messages that did not arrive because their sender cut them."""
    arrived: Count
    ended_s: float

    def models_after(self, round_: int, nodes: int) -> np.ndarray:
        """The evaluated models of the first nodes after a round, one in each row."""
        return np.array([self.evaluated[rank, round_] for rank in range(nodes)], np.float64)

    def records(self, rank: int) -> list[AnyRecord]:
        return [msgspec.json.decode(each, type=AnyRecord) for each in self.journals[rank].splitlines()]

    def of(self, rank: int, kind: type[Record]) -> list[AnyRecord]:
        return [each for each in self.records(rank) if isinstance(each, kind)]

    def rounds(self, rank: int) -> list[Round]:
        return [each for each in self.records(rank) if isinstance(each, Round)]

    def start(self, rank: int) -> Start:
        (start,) = (each for each in self.records(rank) if isinstance(each, Start))
        return start

    def end(self, rank: int) -> End:
        (end,) = (each for each in self.records(rank) if isinstance(each, End))
        return end

    def events(self, rank: int) -> list[Event]:
        return [each for each in self.records(rank) if isinstance(each, Event)]


def total(counts: Sequence[Count]) -> Count:
    return Count(
        sum(each.payload for each in counts),
        sum(each.metadata for each in counts),
        sum(each.control for each in counts),
        sum(each.messages for each in counts),
    )


class MemoryJournal(Journal):
    """Lines instead of a file."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, record: AnyRecord) -> None:
        self.lines.append(line(record))

    def close(self) -> None: ...


class Quadratic:
    """f(x) = |x - c|^2 / 2 for a learner's own c, with noise in every gradient."""

    def __init__(self, world: World, clock: VirtualClock, learner: int | None) -> None:
        self._world = world
        self._clock = clock
        self._learner = learner
        self._rank = None if learner is None else learner + world.server
        self.parameters = world.dimension
        self.samples = 0 if learner is None else world.samples(learner)
        self.tested_on = "test"
        self._target = np.random.default_rng((world.seed, 7, 0 if learner is None else learner)).normal(
            size=world.dimension
        )

    def initial(self) -> Vector:
        if self._world.first_model is None or self._learner is None:
            return np.zeros(self.parameters, np.float32)
        return self._world.first_model(self._learner).astype(np.float32)

    def steps_per_round(self) -> int:
        return self._world.steps

    def slope(self, model: Vector, step: int) -> Vector:
        assert self._learner is not None
        noise = np.random.default_rng((self._world.seed, self._learner, step)).normal(size=self.parameters)
        return (model - self._target + self._world.noise * noise).astype(np.float32)

    def loss(self, model: Vector) -> float:
        return float(((model - self._target) ** 2).sum() / 2)

    async def train(self, model: Vector, first_step: int, steps: int) -> Trained:
        before, trained = model.copy(), model.copy()
        losses = []
        for step in range(first_step, first_step + steps):
            losses.append(self.loss(trained))
            trained -= np.float32(self._world.lr) * self.slope(trained, step)
        change = trained - model
        await self._take(first_step, steps)
        model += change
        return Trained(sum(losses) / len(losses), before, trained)

    async def gradient(self, model: Vector, step: int) -> tuple[float, Vector]:
        loss, slope = self.loss(model), self.slope(model, step)
        await self._take(step, 1)
        return loss, slope

    async def _take(self, first_step: int, steps: int) -> None:
        assert self._learner is not None
        assert self._rank is not None
        self._world.on_training(self._rank, first_step, steps, False)
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        duration_s = sum(self._world.step_s(self._learner, step) for step in range(first_step, first_step + steps))
        self._clock.call_at(self._clock.now() + duration_s, lambda: _settle(over))
        await over
        self._world.on_training(self._rank, first_step, steps, True)

    def evaluate(self, model: Vector) -> Known:
        return Known(Score(None, self.loss(model), 1))

    async def evaluate_inline(self, model: Vector) -> Score:
        return Score(None, self.loss(model), 1)


def _settle(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


@dataclass
class Known:
    """A score that is there already."""

    score: Score

    is_done = True

    async def ended(self) -> None:
        pass

    def result(self) -> Score:
        return self.score


class WatchedNode(Node):
    """A node that tells its world what it sends, at the moment when it does."""

    world: World

    def post(self, recipients: Collection[int], message: Message) -> Tickets:
        for to in recipients:
            self.world.on_post(self.rank, to, message)
        return super().post(recipients, message)


class Parcel:
    """One message under way."""

    def __init__(self, clock: VirtualClock, began_s: float, moving_s: float, nbytes: int) -> None:
        self._clock = clock
        self._began_s = began_s
        self._moving_s = moving_s
        self._nbytes = nbytes
        self.aborted = False

    def quiet_s(self) -> float:
        return 0.0

    def abort(self, *, at_once: bool = False) -> int:  # noqa: ARG002
        self.aborted = True
        return self.sent_bytes()

    def sent_bytes(self) -> int:
        part = (self._clock.now() - self._began_s) / self._moving_s if self._moving_s else 1.0
        return int(self._nbytes * min(1.0, part))


@dataclass(order=True)
class _Arrival:
    """At one instant the network goes by places, which a test may shuffle."""

    t: float
    place: int
    number: int
    sender: int = field(compare=False)
    to: int = field(compare=False)
    message: Message = field(compare=False)
    parcel: Parcel = field(compare=False)
    on_left: Callable[[], None] = field(compare=False)


class Network:
    """Every message takes its latency and its length, whatever else is under way."""

    def __init__(self, world: World, clock: VirtualClock) -> None:
        self._world = world
        self._clock = clock
        self._under_way: list[_Arrival] = []
        self._number = 0
        self._place = {rank: place for place, rank in enumerate(world.order or range(world.size))}
        self.nodes: list[Node] = []
        self.shipped: list[Count] = []
        self.ended: set[int] = set()
        self.finished: set[int] = set()
        self.lost: list[Count] = []
        self.late: list[Count] = []
        self.cut: list[Count] = []
        self.arrived: list[Count] = []

    def next_s(self) -> float:
        return self._under_way[0].t if self._under_way else inf

    def advance(self, to_s: float) -> None:
        while self._under_way and self._under_way[0].t <= to_s:
            arrival = heappop(self._under_way)
            if arrival.parcel.aborted:
                self.cut.append(arrival.message.size)
            else:
                self._arrive(arrival)

    def all_cut(self) -> Count:
        """What was cut, also what would not have arrived by now."""
        return total([*self.cut, *(each.message.size for each in self._under_way if each.parcel.aborted)])

    def _arrive(self, arrival: _Arrival) -> None:
        sender, to, message = arrival.sender, arrival.to, arrival.message
        if self._world.lost(sender, to, message):
            self.lost.append(message.size)
        else:
            (self.late if to in self.ended else self.arrived).append(message.size)
            self._world.on_arrival(sender, to, message)
            self.nodes[to].mailbox.put(sender, message)
        arrival.on_left()
        if sender in self.finished:
            self.tell_who_has_finished()

    def tell_who_has_finished(self) -> None:
        """Tells all nodes, at the end of the instant, unless the last message of that node is still coming."""
        self._clock.at_end_of_instant(self._tell_who_has_finished)

    def _tell_who_has_finished(self) -> None:
        coming = {(each.sender, each.to) for each in self._under_way if not each.parcel.aborted}
        for to in set(range(len(self.nodes))) - self.ended:
            self.nodes[to].others_finished([rank for rank in sorted(self.finished) if (rank, to) not in coming])

    def ship(self, sender: int, to: int, message: Message, on_left: Callable[[], None]) -> Parcel:
        self._world.before_shipping(sender, to, message)
        self.shipped.append(message.size)
        now = self._clock.now()
        moving_s = self._world.latency_s(sender, to) + message.nbytes * 8 / self._world.rate_bps
        parcel = Parcel(self._clock, now, moving_s, message.nbytes)
        wire = [frame if isinstance(frame, bytes) else frame.tobytes() for frame in message.frames()]
        self._number += 1
        heappush(
            self._under_way,
            _Arrival(now + moving_s, self._place[sender], self._number, sender, to, from_frames(wire), parcel, on_left),
        )
        return parcel


@dataclass
class _Port:
    """One node's way into the network."""

    network: Network
    rank: int

    def ship(self, to: int, message: Message, on_left: Callable[[], None]) -> Parcel:
        return self.network.ship(self.rank, to, message, on_left)


class _Running:
    """All nodes of a world, until the last one is done."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clock = world.clock = VirtualClock()
        self._network = Network(world, self._clock)
        self._clock.drive(self._network)
        self._journals = [MemoryJournal() for _ in range(world.size)]
        self._evaluated: dict[tuple[int, int], Vector] = {}
        self._nodes = [self._node(plan, world.goes_on, has_snapshot=world.goes_on > 0) for plan in plans(world)]
        self._network.nodes = self._nodes
        self._lives = [Life(node, BUILD) for node in self._nodes]
        self._done: list[asyncio.Future[None]] = []

    def recorded(self, rank: int, record: AnyRecord) -> None:
        if isinstance(record, Round):
            self._world.on_round(rank, record.round, self._nodes[rank].model)

    def model(self, rank: int, round_: int, vector: Vector) -> None:
        self._evaluated[rank, round_] = vector

    def _node(self, plan: NodePlan, first_round: int, *, has_snapshot: bool) -> Node:
        rank, world = plan.node.rank, self._world
        snapshots = None if world.folders is None else world.folders / str(rank) / "snapshots"
        if snapshots is not None:
            snapshots.parent.mkdir(exist_ok=True)
        node = WatchedNode(
            plan,
            snapshots=snapshots,
            snapshot=newest_snapshot(snapshots, world.dimension) if has_snapshot and snapshots else None,
            first_round=first_round,
            clock=self._clock,
            transport=_Port(self._network, rank),
            compute=Quadratic(self._world, self._clock, plan.node.learner),
            journal=self._journals[rank],
            observer=self,
        )
        node.world = world
        return node

    def run(self) -> Outcome:
        run(self._clock, self._everybody())
        return Outcome(
            journals=[b"".join(journal.lines) for journal in self._journals],
            reasons=[life.reason or Reason.FAILED for life in self._lives],
            models=[node.model for node in self._nodes],
            evaluated=self._evaluated,
            shipped=total(self._network.shipped),
            lost=total(self._network.lost),
            late=total(self._network.late),
            cut=self._network.all_cut(),
            arrived=total(self._network.arrived),
            ended_s=self._clock.now(),
        )

    async def _everybody(self) -> None:
        self._done = [asyncio.get_running_loop().create_future() for _ in self._lives]
        for t, rank, reason in self._world.early:
            self._clock.call_at(t, lambda rank=rank, reason=reason: self._lives[rank].end_early(reason))  # type: ignore[misc]
        order = self._world.order or range(self._world.size)
        await asyncio.gather(*[asyncio.ensure_future(self._live(rank)) for rank in order])

    async def _live(self, rank: int) -> None:
        reason = await self._lives[rank].live(lambda: self._others_done(rank))
        self._network.ended.add(rank)
        if reason is Reason.FINISHED:
            self._network.finished.add(rank)
            self._network.tell_who_has_finished()
        self._done[rank].set_result(None)
        if reason is Reason.FAILED:
            for life in self._lives:
                life.end_early(Reason.STOPPED)

    async def _others_done(self, rank: int) -> None:
        await asyncio.gather(*[done for other, done in enumerate(self._done) if other != rank])


def plans(world: World) -> list[NodePlan]:
    """What each node is told."""
    learners = tuple(range(world.server, world.server + world.learners))
    experiment = Experiment.model_validate(
        {
            "topology": "small-world",
            "algorithm": dict(world.algorithm),
            "training": {"lr": world.lr, "steps": world.steps},
            "stop": {"rounds": world.rounds} if world.rounds is not None else {"time": 1e9},
            "evaluation": {"mode": "none"},
            "seed": world.seed,
            **world.experiment,
        }
    )
    overlay = PlannedOverlay(
        kind="cyclon" if world.views is not None else "file" if world.graph is not None else "regular",
        degree=world.degree,
        dynamic=world.graph is None,
        peers="seed" if world.sampler is None else "sampler",
        sampler=world.sampler,
        neighbours=None if world.graph is None else tuple(tuple(learners[at] for at in each) for each in world.graph),
        rewire=0.0,
        code=None,
        views=world.views,
    )
    names = tuple(f"node{rank}" for rank in range(world.size))
    nodes = []
    for rank in range(world.size):
        learner = learners.index(rank) if rank in learners else None
        does: dict[Role, bool] = {
            "server": world.server and rank == 0,
            "sampler": world.sampler == rank,
            "learner": learner is not None,
        }
        graph = None if world.graph is None or learner is None else world.graph[learner]
        nodes.append(
            NodePlan(
                seed=world.seed,
                node=PlannedNode(
                    rank=rank,
                    name=names[rank],
                    service=names[rank],
                    address=f"198.18.0.{rank + 1}",
                    image="",
                    roles=tuple(role for role, is_its_own in does.items() if is_its_own),
                    learner=learner,
                    pace=((0.0, 1.0),),
                ),
                ranks=names,
                addresses=tuple(f"198.18.0.{other + 1}" for other in range(world.size)),
                learners=learners,
                neighbours=None if graph is None else tuple(learners[other] for other in graph),
                overlay=overlay,
                experiment=experiment,
                ms_per_step=10.0,
                server=0 if world.server else None,
                parameters=world.dimension,
            )
        )
    return nodes
