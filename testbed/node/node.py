"""`Node`: the interface between an algorithm and its run.

Takes a `NodePlan` and a world (clock, transport, compute, journal). An algorithm never sees sockets, processes or real
clocks, so the same source runs in virtual time and in containers. A node is built in layers, one module each: what it
writes (`recording`), sends (`sending`), receives (`receiving`), and exchanges with several peers (`talking`). Here is
what it learns, round after round.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from testbed.journal import Journal
from testbed.node.neighbourhood import VIEW, Neighbourhood
from testbed.node.round_account import EVALUATE, TRAIN, WAIT
from testbed.node.sending import Ports
from testbed.node.snapshots import Snapshot, save_snapshot
from testbed.node.state import NOTHING, State
from testbed.node.streams import Streams
from testbed.node.talking import TalkingNode
from testbed.node.world import Clock, Compute, Observer, Score, Trained, Transport, Vector
from testbed.plan.model import NodePlan
from testbed.records import AnyRecord, Evaluation

STREAMS = "streams"
"""The name of the streams in a snapshot's state."""


class Node(TalkingNode):
    """One learner (or server), its model, its peers and its journal."""

    def __init__(
        self,
        plan: NodePlan,
        *,
        clock: Clock,
        transport: Transport,
        compute: Compute,
        journal: Journal,
        observer: Observer,
        snapshot: Snapshot | None = None,
        first_round: int = 0,
        snapshots: Path | None = None,
    ) -> None:
        self.model: Vector = compute.initial() if snapshot is None else snapshot.vector
        """The parameters: one float32 vector, which an algorithm may change in place between awaits."""
        ports = Ports(clock, transport, journal, observer, compute.tested_on, self.model.nbytes)
        super().__init__(plan, ports, first_round)
        self.name = plan.node.name
        """The name of this node in the topology."""
        self.learners = plan.learners
        """Ranks of all nodes that learn."""
        self.snapshot = snapshot
        """The snapshot that a node begins with after a return; None once its algorithm has been made."""
        self.on_trained: Callable[[Vector], None] | None = None
        """Called with the change of the model by training."""
        self.remembered: Callable[[], Mapping[str, State]] = dict
        """Gives the states to save in snapshots besides the model and the random streams."""
        self.first_round = first_round
        self.rounds_done = first_round
        self.steps = first_round * (compute.steps_per_round() if plan.node.learner is not None else 0)
        """Local steps since the start of the run, those before a return included."""
        self.first_step = self.steps
        self._compute = compute
        self._training = asyncio.Lock()
        self._streams = Streams(plan.seed, plan.node.name)
        self._snapshots = snapshots
        self._neighbourhood = Neighbourhood(plan)
        self._evaluated_round = -1

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def others(self) -> tuple[int, ...]:
        """Ranks of all other learners."""
        return tuple(rank for rank in self.learners if rank != self.rank)

    @property
    def samples(self) -> int:
        """The number of the node's training samples."""
        return self._compute.samples

    @property
    def folder(self) -> Path:
        """A folder among the run's results for files of the algorithm, in every runtime."""
        if self._snapshots is None:
            raise RuntimeError("this node is not part of a run, and has no folder")
        return self._snapshots.parent

    def random(self, purpose: str) -> Random:
        """A random stream of this node: the same in every run with the seed, shared with no other node or purpose."""
        return self._streams.of(purpose)

    def restore(self, parts: Mapping[str, State]) -> None:
        """Restores random streams, so that those requested from now on continue, and its view of the other nodes.

        Raises UnusableState.
        """
        self._streams.restore(parts.get(STREAMS, NOTHING))
        self._neighbourhood.restore(self, parts.get(VIEW, NOTHING))

    def snapshot_parts(self) -> Mapping[str, State]:
        """What `restore` restores."""
        return {STREAMS: self._streams.state(), **self._neighbourhood.states()}

    def begin_to_meet(self) -> None:
        """Takes part in peer sampling from now on, where the overlay needs it."""
        self._neighbourhood.begin()

    # -- rounds ----------------------------------------------------------------------------------------------------

    async def rounds(self) -> AsyncIterator[int]:
        """Round numbers until the experiment's end; each round is journalled when the next one is requested."""
        stop = self.plan.experiment.stop.rounds
        number = self.first_round
        while stop is None or number < stop:
            async with self.one_round(number):
                yield number
            number += 1

    @asynccontextmanager
    async def one_round(self, number: int, *, evaluate: bool = True) -> AsyncIterator[None]:
        """One round, for an algorithm that numbers its rounds itself."""
        self.round = number
        self._account.rounds_go_on_here()
        yield
        await self._close_round(number, evaluate=evaluate)

    async def catch_up(self, number: int) -> None:
        """The model is now the one after that round, which others have ended: evaluates it where that is due."""
        inline = await self._inline(number)
        self.rounds_done = max(self.rounds_done, number + 1)
        self._judge(number, inline)

    async def _close_round(self, number: int, *, evaluate: bool) -> None:
        inline = await self._inline(number) if evaluate else None
        self.rounds_done = number + 1
        self.record(self._account.close(number, self.outbox, self.mailbox.received))
        if evaluate:
            self._judge(number, inline)
        experiment = self.plan.experiment
        every = experiment.snapshots.every or (1 if experiment.rejoin == "last" else 0)
        if self._snapshots is not None and every and (number + 1) % every == 0:
            save_snapshot(self._snapshots, number + 1, self.model, {**self.snapshot_parts(), **self.remembered()})

    def _is_judged(self, number: int) -> bool:
        """Whether an evaluation of the model after a round is due."""
        settings, stop = self.plan.experiment.evaluation, self.plan.experiment.stop.rounds
        last = stop is not None and number + 1 >= stop
        judged = self.server in (None, self.rank)  # where there is a server, its model is what counts
        return judged and settings.mode != "none" and ((number + 1) % settings.every == 0 or last)

    async def _inline(self, number: int) -> Score | None:
        """The score of an evaluation that takes emulated time, if that is due."""
        if self.plan.experiment.evaluation.mode != "inline" or not self._is_judged(number):
            return None
        with self._account.phase(EVALUATE):
            return await self._compute.evaluate_inline(self.model)

    def _judge(self, number: int, inline: Score | None) -> None:
        """Evaluates the model after a round, if that is due; `inline` is a score that is there already."""
        if inline is not None:
            self._evaluated_round = number
            self.record(
                Evaluation(self.now(), number, inline.accuracy, inline.loss, inline.samples, self._compute.tested_on)
            )
            self._observer.model(self.rank, number, self.model.copy())
        elif self._is_judged(number):
            self.evaluate_after()

    def evaluate_after(self) -> None:
        """Evaluates the current model, outside emulated time; at most once a round."""
        number = self.rounds_done - 1
        if self.server not in (None, self.rank) or number < self.first_round:
            return
        if self._evaluated_round >= number or self.plan.experiment.evaluation.mode == "none":
            return
        self._evaluated_round = number
        vector = self.model.copy()
        self._evaluating(number, self._compute.evaluate(vector))
        self._observer.model(self.rank, number, vector)

    # -- learning --------------------------------------------------------------------------------------------------

    async def train(self, steps: int | None = None) -> float:
        """Does the round's local steps (or `steps`) and gives their mean loss. The model changes once, at their end.

        The change is added then, so that what was mixed into the model meanwhile stays. A node trains one thing at a
        time: a second call waits for the first.
        """
        return (await self._trained(self.model, steps)).loss

    async def trained_change(self, steps: int | None = None) -> Vector:
        """Does local steps as `train` does, and gives the change that they would make; the model stays the same."""
        trained = await self._trained(self.model.copy(), steps)
        return trained.after - trained.before

    async def _trained(self, model: Vector, steps: int | None) -> Trained:
        count = self._compute.steps_per_round() if steps is None else steps
        async with self._training:
            with self._account.phase(TRAIN):
                trained = await self._compute.train(model, self.steps, count)
            if self.on_trained is not None:
                self.on_trained(trained.after - trained.before)
            self._count_steps(trained.loss, count)
        return trained

    async def gradient(self) -> Vector:
        """The gradient of one minibatch at the current model, which stays the same."""
        async with self._training:
            with self._account.phase(TRAIN):
                loss, gradient = await self._compute.gradient(self.model, self.steps)
            self._count_steps(loss, 1)
        return gradient

    def _count_steps(self, loss: float, steps: int) -> None:
        self.steps += steps
        self._account.trained(loss, steps)

    async def neighbours(self, round_: int) -> tuple[int, ...]:
        """Ranks of this node's neighbours in a round, by the experiment's overlay."""
        with self._account.phase(WAIT):
            return await self._neighbourhood.of(self, round_)

    def close_with(self, record: AnyRecord) -> None:
        """Writes the last record and drops evaluations under way; nothing is sent any more."""
        self.stop_answering()
        super().close_with(record)
