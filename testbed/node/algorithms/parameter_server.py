"""The parameter server: workers compute gradients, a server holds the model and takes the steps.

Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014. Synchronous, a round is one step
by the mean of one gradient of each worker. Asynchronous, every gradient is a step at once, and only its worker gets the
new model; the others go on with older ones. Damping and bounds against old gradients: Zhang et al., "Staleness-aware
Async-SGD for Distributed Deep Learning", IJCAI 2016; Ho et al., "More Effective Distributed ML via a Stale Synchronous
Parallel Parameter Server", NeurIPS 2013.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from testbed.node.algorithm import Algorithm
from testbed.node.kinds import MODEL
from testbed.node.messages import Message, Received, UnusableModel, snapshot
from testbed.node.node import Node
from testbed.node.sharing.base import whole, whole_in
from testbed.node.state import NOTHING, State, whole_number_in, whole_numbers_in
from testbed.node.talking import PeerMissing
from testbed.node.world import Vector

GRADIENT = "gradient"
OVER = "over"
_TIMEOUTS = 5
"""How often in a row all workers may be silent for as long as the experiment allows."""


class ParameterServer(Algorithm):
    """An asynchronous round has as many steps as there are workers."""

    needs_server = True

    def __init__(self, mode: str = "sync", damping: str = "none", max_lead: int | None = None) -> None:
        if mode not in ("sync", "async") or damping not in ("none", "staleness"):
            raise ValueError("mode is sync or async, and damping none or staleness")
        if max_lead is not None and max_lead < 0:
            raise ValueError("max_lead cannot be negative")
        self.mode = mode
        self.damping = damping
        self.max_lead = max_lead
        self._progress = _Progress()

    async def run(self, node: Node) -> None:
        assert node.server is not None  # noqa: S101 - the plan has one
        done = node.first_round
        while (received := await node.newest(MODEL, OVER, sender=node.server)) and received.message.kind == MODEL:
            async with node.one_round(done, evaluate=False):
                self.sharing.adopt(node.model, received)
                gradient = snapshot(await node.gradient())
                version = received.message.fields.get("version", 0)
                await node.send(node.server, Message(GRADIENT, received.round, {"version": version}, (gradient,)))
            done += 1

    def state(self) -> State:
        version, steps = self._progress.version, self._progress.steps
        return {"version": version, "ranks": list(steps), "steps": list(steps.values())} if version else NOTHING

    def restore(self, state: State) -> None:
        steps = zip(whole_numbers_in(state, "ranks"), whole_numbers_in(state, "steps"), strict=False)
        self._progress = _Progress(whole_number_in(state, "version"), dict(steps))

    async def serve(self, node: Node) -> None:
        await (self._serve_all_together(node) if self.mode == "sync" else self._serve_each_at_once(node))
        await node.send(node.learners, Message(OVER, node.rounds_done))

    async def _serve_all_together(self, node: Node) -> None:
        lr = node.plan.experiment.training.lr
        async for round_ in node.rounds():
            await node.send(node.learners, whole(node.model, round_))
            gradients = await node.gather(node.learners, round_, GRADIENT)
            if not gradients:
                await node.patience()  # no worker is there: without a pause, rounds would take no time
            for received in gradients:
                _step(node.model, received, lr / len(gradients))

    async def _serve_each_at_once(self, node: Node) -> None:
        lr = node.plan.experiment.training.lr
        workers = _Workers(node, self.max_lead, self._progress)
        async for _ in node.rounds():
            for _ in node.learners:
                await workers.answer()
                received, staleness = await workers.next_gradient()
                _step(node.model, received, lr / (1 + staleness) if self.damping == "staleness" else lr)
                self._progress.version += 1


@dataclass
class _Progress:
    """The state of an asynchronous server besides the model."""

    version: int = 0
    """The version of the model: how many steps have been taken."""
    steps: dict[int, int] = field(default_factory=dict)
    """The number of gradients of each worker that counts for the others' lead."""


class _Workers:
    """The version that each worker has been sent, and the workers that wait for the next one."""

    def __init__(self, node: Node, max_lead: int | None, progress: _Progress) -> None:
        self._progress = progress
        self._node = node
        self._max_lead = max_lead
        self._steps = progress.steps
        # A worker that had been given up before the snapshot goes on as the slowest.
        slowest = min(self._steps.values(), default=0)
        self._steps.update((rank, self._steps.get(rank, slowest)) for rank in node.learners)
        self._waiting = set(node.learners)
        self._arrived: list[Received] = []
        self._patience_s: float | None = node.plan.experiment.missing.after_s

    async def answer(self) -> None:
        """Sends the model to all workers that wait for it and are not too far ahead of the slowest."""
        slowest = min(self._steps.values())
        for rank in sorted(self._waiting):
            if self._max_lead is None or self._steps[rank] - slowest <= self._max_lead:
                self._waiting.remove(rank)
                model = whole(self._node.model, self._node.round)
                await self._node.send(rank, model.with_fields(version=self._progress.version))

    async def next_gradient(self) -> tuple[Received, int]:
        """The next gradient, and how many versions it is behind."""
        timeouts = 0
        while not self._arrived:
            self._arrived = await self._node.receive_all(GRADIENT, timeout_s=self._patience_s)
            if not self._arrived:
                timeouts += 1
                await self._all_silent(is_over=timeouts > _TIMEOUTS)
        received = self._arrived.pop(0)
        version, now = received.message.fields.get("version"), self._progress.version
        # A server that came back goes on from a snapshot: workers may have later versions from before.
        if type(version) is not int or version < 0 or (version > now and not self._node.came_back):
            raise UnusableModel(received.sender, f"a gradient of the version {version!r}, the model is at {now}")
        # A worker that was given up goes on as the slowest.
        self._steps.setdefault(received.sender, min(self._steps.values(), default=0))
        self._steps[received.sender] += 1
        self._waiting.add(received.sender)
        return received, max(0, now - version)

    async def _all_silent(self, *, is_over: bool) -> None:
        """Handles a timeout: none of the workers that have a model has answered.

        If there are no others, all are asked again, since it may be the server that was cut off; not if that `is_over`.
        """
        node, then = self._node, self._node.plan.experiment.missing.then
        silent = sorted(self._steps.keys() - self._waiting)
        names = ", ".join(node.plan.ranks[rank] for rank in silent)
        node.note("peer-missing", f"version {self._progress.version}: {names}: {then}")
        if then == "wait":
            self._patience_s = None
            return
        if then == "abort" or is_over:
            raise PeerMissing(f"{names} sent no gradient")
        if len(silent) == len(self._steps):
            self._waiting.update(silent)
        else:
            for rank in silent:
                del self._steps[rank]
        await self.answer()


def _step(model: Vector, received: Received, scale: float) -> None:
    """Takes one step of gradient descent."""
    model -= np.float32(scale) * whole_in(received, model.size, GRADIENT)
