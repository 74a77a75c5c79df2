"""A node's life: from the start barrier to the last record.

Takes a `Node` and its roles, gives the reason of its end; writes `start` and `end`. Every failure of an algorithm or a
model is written to the journal, with its place in that code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import partial

from testbed import __version__
from testbed.code import CodeProblem, call, is_code, problem_in
from testbed.errors import TestbedError
from testbed.limits import with_limit
from testbed.node.algorithm import Algorithm
from testbed.node.background import Background, first_of
from testbed.node.choose import check_server, choose_algorithm, choose_sharing, source_of
from testbed.node.messages import UnusableModel
from testbed.node.neighbourhood import PeerSampler
from testbed.node.node import Node
from testbed.node.receiving import ServerDone
from testbed.node.sealing import UnsendableMessage
from testbed.node.sharing.base import Sharing
from testbed.node.snapshots import NO_PARTS, Snapshot
from testbed.node.state import State, UnusableState, checked
from testbed.node.talking import PeerMissing
from testbed.node.training_settings import ComputingLost, TrainingFailed
from testbed.node.unawaited import tell_of_unawaited
from testbed.plan.overlay_graph import NoGraph
from testbed.records import SCHEMA, Build, End, Failure, Start

Told = CodeProblem | TrainingFailed | PeerMissing | ComputingLost | NoGraph | UnusableModel
"""Exceptions whose text says what went wrong, and where."""
TOLD = (CodeProblem, TrainingFailed, PeerMissing, ComputingLost, NoGraph, UnusableModel)

_ALGORITHM, _SHARING = "algorithm", "sharing"
"""Names of the parts of a snapshot's state."""


class Reason(StrEnum):
    """Why a node's life ends."""

    FINISHED = "finished"
    STOPPED = "stopped"
    """The experiment's time was over, or its accuracy was reached."""
    LEFT = "left"
    """An event of the topology ended the node."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Life:
    """One node from its start to its end; the runtime may end it early."""

    def __init__(self, node: Node, build: Build, rejoin: str | None = None) -> None:
        self.node = node
        self.reason: Reason | None = None
        self.failure: Failure | None = None
        self.raised: BaseException | None = None
        """The uncaught exception of the researcher's code, of which the journal has one line."""
        self._build = build
        self._rejoin = rejoin
        self._work: asyncio.Task[None] | None = None
        self._early: Reason | None = None
        self._has_begun = False
        self._is_over = False
        """Its roles are being ended: a cancellation is no act of the algorithm."""
        self._background = node.background = Background(self._source)
        self._unawaited: set[str] = set()
        if rejoin is not None:
            node.come_back()

    async def live(self, others_done: Callable[[], Awaitable[None]]) -> Reason:
        """Runs the node's roles; a sampler goes on until no node needs it. Raises only when cancelled."""
        tell_of_unawaited(self._tell_of_unawaited)
        self._begin()
        self._work = asyncio.ensure_future(self._roles(others_done))
        if self._early is not None:
            self._work.cancel()
        try:
            with suppress(ServerDone):  # it came back too late to hear that all is done
                await self._done(self._work)
            self.reason = Reason.FINISHED
        except asyncio.CancelledError:
            if self._early is None or _is_being_cancelled():  # the node crashes, and a dead node writes nothing
                raise
            self.reason = self._early
        except TestbedError:
            raise
        except TOLD as problem:
            self.raised = problem.__cause__  # of code that raised where it was called, such as its constructor
            self._fail(problem)
        except Exception as problem:
            self.raised = problem
            self._fail(problem_in(self._source_of(problem), problem))
        finally:
            await self._background.end()
        if self.reason is Reason.LEFT and self._has_begun:
            self.node.say_goodbye()
            await self.node.finish_sending()
        elif self.reason is not Reason.FINISHED:
            self.node.outbox.cut()
        await self._end()
        return self.reason or Reason.FAILED

    def end_early(self, reason: Reason) -> None:
        """Ends the node now. Unsent messages are dropped, except those of a node that leaves in good order."""
        if self.reason is None and self._early is None:
            self._early = reason
            if self._work is not None:
                self._work.cancel()
        elif self._early is Reason.LEFT:
            self.node.outbox.cut()  # it was sending its last messages, and now there is no time left

    def _tell_of_unawaited(self, words: str) -> None:
        if self.reason is None and words not in self._unawaited:
            self._unawaited.add(words)
            self.node.note("not-awaited", words)

    @property
    def is_ending(self) -> bool:
        """Whether the node has been ended early."""
        return self._early is not None

    def fail(self, failure: Failure) -> None:
        """Ends the node now, because of a failure outside of it."""
        if self.reason is None and self._early is None:
            self.failure = failure
            self.end_early(Reason.FAILED)

    @property
    def _source(self) -> str:
        return source_of(self.node.plan.experiment.algorithm.name)

    def _source_of(self, problem: Exception) -> str:
        """The code at fault: for a message of a built-in algorithm that cannot be sent, the sharing that made it."""
        chosen = self.node.plan.experiment
        is_encoded = isinstance(problem, UnsendableMessage) and not is_code(chosen.algorithm.name)
        return chosen.sharing.name if is_encoded and is_code(chosen.sharing.name) else self._source

    async def _roles(self, others_done: Callable[[], Awaitable[None]]) -> None:
        roles = self.node.plan.node.roles
        serving = asyncio.ensure_future(PeerSampler().serve(self.node)) if "sampler" in roles else None
        working = asyncio.ensure_future(self._work_of(roles, None if serving is None else others_done))
        failing = asyncio.ensure_future(self._background.failed())
        tasks = [failing, working] if serving is None else [failing, serving, working]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            next(task for task in tasks if task.done()).result()
        finally:
            self._is_over = True
            for task in tasks:
                task.cancel()

    async def _done(self, work: asyncio.Task[None]) -> None:
        """Waits for the work; of a group of exceptions, as of a `TaskGroup`, raises the first."""
        try:
            await work
        except BaseExceptionGroup as group:
            raise first_of(group) from group

    async def _work_of(self, roles: Collection[str], others_done: Callable[[], Awaitable[None]] | None) -> None:
        self._has_begun = True
        self._background.enter()
        self.node.work_goes_on_here()
        algorithm = self._algorithm()
        check_server(self.node.plan.experiment.algorithm.name, algorithm, has_server=self.node.server is not None)
        if "server" in roles:
            await self._own_code(algorithm.serve(self.node))
        if "learner" in roles:
            self.node.begin_to_meet()
            await self._own_code(algorithm.run(self.node))
        await self._background.end()
        await self.node.finish_sending()
        if others_done is not None:
            await others_done()
            await self.node.finish_sending()

    async def _own_code(self, work: Awaitable[None]) -> None:
        """Turns an attempt of the algorithm to exit, or to cancel itself, into a failure with its place."""
        try:
            await work
        except SystemExit as problem:
            raise problem_in(self._source, problem) from problem
        except asyncio.CancelledError as problem:
            if self._is_over:
                raise
            raise problem_in(self._source, problem) from problem

    def _algorithm(self) -> Algorithm:
        """The algorithm, connected with the node, with its state from before the node went down."""
        node, snapshot = self.node, self.node.snapshot
        try:
            algorithm = self._made(NO_PARTS if snapshot is None else snapshot.state)
            lost = "" if snapshot is None else snapshot.problem or self._left_out(snapshot, algorithm)
        except UnusableState as problem:
            algorithm, lost = self._made(NO_PARTS), str(problem)
        if lost:
            node.note("state-lost", f"{lost}; the node goes on with its model alone")
        sharing = algorithm.sharing
        node.on_trained = None if type(sharing).trained is Sharing.trained else sharing.trained
        node.snapshot = None
        node.remembered = partial(self._remembered, algorithm)
        return algorithm

    def _remembered(self, algorithm: Algorithm) -> Mapping[str, State]:
        """The states of algorithm and sharing; raises CodeProblem, with the file that it is about, if unusable."""
        chosen = self.node.plan.experiment
        return {
            _ALGORITHM: call(chosen.algorithm.name, lambda: checked(algorithm.state())),
            _SHARING: call(chosen.sharing.name, lambda: checked(algorithm.sharing.state())),
        }

    def _made(self, parts: Mapping[str, State]) -> Algorithm:
        """The algorithm with restored state; raises UnusableState if the state belongs to something else."""
        chosen, node = self.node.plan.experiment, self.node
        node.restore(parts)
        algorithm = choose_algorithm(chosen.algorithm.name, chosen.algorithm.options)
        sharing = choose_sharing(chosen.sharing.name, chosen.sharing.options, node.random("compression"))
        sharing.begin(node.model)
        algorithm.sharing = sharing
        for part, source, restore in (
            (_ALGORITHM, chosen.algorithm.name, algorithm.restore),
            (_SHARING, chosen.sharing.name, sharing.restore),
        ):
            try:
                if parts.get(part):
                    restore(parts[part])
            except UnusableState:
                raise
            except Exception as problem:
                raise problem_in(source, problem) from problem
        return algorithm

    def _left_out(self, snapshot: Snapshot, algorithm: Algorithm) -> str:
        """Why a state that should be there is missing; empty if nothing is missing."""
        if snapshot.state or not any(self._remembered(algorithm).values()):
            return ""
        return f"the snapshot of round {snapshot.rounds} holds a model without a state"

    def _begin(self) -> None:
        plan = self.node.plan
        self.node.begin(
            Start(
                t=self.node.now(),
                schema=SCHEMA,
                node=self.node.name,
                rank=self.node.rank,
                roles=plan.node.roles,
                learner=plan.node.learner,
                samples=self.node.samples,
                parameters=self.node.model.size,
                algorithm=plan.experiment.algorithm.name,
                seed=plan.seed,
                build=self._build,
                rejoin=self._rejoin,
                round=self.node.first_round,
            )
        )

    def _fail(self, problem: Told) -> None:
        self.reason = Reason.FAILED
        self.failure = failure_of(problem)
        if isinstance(problem, UnusableModel):
            culprit = self.node.plan.ranks[problem.sender]
            self.failure = Failure(f"{culprit} sent a model that cannot be used: {problem.why}")

    async def _end(self) -> None:
        assert self.reason is not None  # noqa: S101 - it has just been set
        over_t = self.node.now()  # what is evaluated after the work does not prolong it
        has_worked = self.reason in (Reason.FINISHED, Reason.STOPPED) and self.node.rounds_done > self.node.first_round
        if has_worked and is_code(self.node.plan.experiment.algorithm.name):  # those built in know what they leave
            for kind, count in self.node.mailbox.never_taken().items():
                self.node.note("never-taken", f"{kind}: {count}")
        if self.reason in (Reason.STOPPED, Reason.LEFT):
            self._last_evaluations(self.node.evaluate_after)
        if self.reason is Reason.INTERRUPTED:  # a user is waiting: evaluations that are not done by now are dropped
            self._last_evaluations(partial(self.node.settle_evaluations, wait=False))
        else:
            await self.node.all_evaluated()
            self._last_evaluations(self.node.settle_evaluations)
        self.node.close_with(
            End(
                t=over_t,
                reason=self.reason.value,
                rounds=self.node.rounds_done,
                steps=self.node.steps - self.node.first_step,
                sent=self.node.outbox.sent.count(),
                received=self.node.mailbox.received.count(),
                failure=self.failure,
            )
        )

    def _last_evaluations(self, step: Callable[[], None]) -> None:
        """Waits for the last evaluations. Their failure becomes the node's reason of ending only if it had none yet."""
        try:
            step()
        except TOLD as problem:
            if self.reason is Reason.FINISHED:
                self._fail(problem)


def _is_being_cancelled() -> bool:
    """Whether another task has cancelled the current one."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def failure_of(problem: Told) -> Failure:
    """A failure as the journal has it."""
    message = with_limit(getattr(problem, "message", None) or str(problem))
    return Failure(message, getattr(problem, "file", None), getattr(problem, "line", None))


def build_of_this_process() -> Build:
    """What a journal's numbers depend on besides the plan."""
    import torch

    return Build(__version__, str(torch.__version__), torch.backends.cpu.get_cpu_capability())
