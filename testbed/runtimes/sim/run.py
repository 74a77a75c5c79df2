"""A whole run in virtual time.

Takes a `RunPlan` and its run directory, gives an `Outcome`; writes the nodes' journals and control's log, and has
worker processes for the arithmetic. The same plan gives the same bytes. When the run is over, what counts as finished
and which rounds are averaged, the rules of `control` say, as in real time.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from random import Random
from time import monotonic

import msgspec

from testbed.control.average_rounds import AverageRounds, Complete, Decision, Lost
from testbed.control.averages import lost_average
from testbed.control.log import ControlLog
from testbed.control.outcome import ACCURACY, FAILED, INTERRUPTED, TIME, Outcome
from testbed.control.progress import Tell
from testbed.control.rules import Remaining, RunRules, node_reason, remaining
from testbed.control.stall import failures_in_vain, some_names
from testbed.journal import CannotWrite
from testbed.network.change_words import words
from testbed.network.moment import moments, network_before
from testbed.network.timeline import Change, NodesChange
from testbed.node.life import TOLD, Reason, build_of_this_process, failure_of
from testbed.node.messages import Message
from testbed.node.unawaited import unawaited_are_told
from testbed.node.world import Vector
from testbed.plan.files import split
from testbed.plan.flows_of import flows_of
from testbed.plan.model import RunPlan
from testbed.records import AnyRecord, Average, Event, Round
from testbed.rundir import RunDirectory
from testbed.runtimes.averaging import evaluate_average
from testbed.runtimes.sim.clock import VirtualClock, run
from testbed.runtimes.sim.compute import Shared
from testbed.runtimes.sim.network import VirtualNetwork
from testbed.runtimes.sim.virtual_node import VirtualNode
from testbed.topologies.event_checks import starting_absent
from testbed.topologies.model import NodeAction

_LOOK_S = 1.0
"""Of real time, between two looks whether the run directory is there."""
_TELL_EVERY_S = 0.2
"""Of real time: what is shown must not cost the run its speed."""


class _Interruption:
    """Lets an interrupt, which comes at any moment of real time, happen between two instants of virtual time."""

    def __init__(self, whole: SimRun) -> None:
        self._whole = whole

    def next_s(self) -> float:
        return 0.0 if self._whole.wants_to_end else math.inf  # in the past, which is: at once

    def advance(self, to_s: float) -> None:  # noqa: ARG002
        if self._whole.wants_to_end:
            self._whole.end_interrupted()


class SimRun:
    """One run; made once, run once."""

    def __init__(
        self,
        plan: RunPlan,
        directory: RunDirectory,
        shared: Shared,
        *,
        tell: Tell | None = None,
        shuffle: int | None = None,
    ) -> None:
        """`shuffle` changes the order in which nodes are taken within an instant: results must not depend on it."""
        self._plan = plan
        self._directory = directory
        self._shared = shared
        self._tell = tell
        self._shuffle = shuffle
        self._node_plans = {each.node.rank: each for each in split(plan)}
        stop = plan.experiment.stop
        self._rules = RunRules(plan)
        self._rounds: AverageRounds[Vector] = AverageRounds()
        self._build = build_of_this_process()
        self._clock = VirtualClock()
        self._clock.on_stalled = self._stalled
        self._clock.on_cut = self._cut
        self._topology = plan.load_topology()
        graph = self._graph = plan.expanded_network()
        """The network as it is now."""
        flows = flows_of(plan, network_before(self._topology, graph))
        self._network = VirtualNetwork(flows, self._clock)
        self._clock.drive(self._network)
        until_s = math.inf if stop.time_s is None else stop.time_s
        self._moments = moments(self._topology, graph, plan.seed, until_s, leavers_keep_links=True)
        self._log = ControlLog(directory.events, is_virtual=True)
        self._nodes: dict[int, VirtualNode] = {}
        self._is_accuracy_due = False
        self._returning: set[int] = set()
        """Nodes that join as soon as they are gone."""
        self._idle: set[int] = set()
        """Nodes that live on only to serve others."""
        self._untold: dict[int, set[int]] = {}
        """By node: those that have finished, of which it does not know yet."""
        self._is_telling_due = False
        self._over: asyncio.Event
        self._quiet: asyncio.Event
        self._bug: BaseException | None = None
        self._interrupted = False
        self._told_at = self._looked_at = 0.0
        self._clock.drive(_Interruption(self))

    def run(self) -> Outcome:
        """Until every node is done."""
        try:
            with unawaited_are_told():
                return run(self._clock, self._whole())
        finally:
            self._log.close()
            for node in self._nodes.values():
                node.close()

    def interrupt(self) -> None:
        """End soon, in good order; safe to call from a signal handler."""
        self._interrupted = True

    @property
    def wants_to_end(self) -> bool:
        return self._interrupted

    def end_interrupted(self) -> None:
        self._interrupted = False
        self._stop(INTERRUPTED)

    # -- the run ---------------------------------------------------------------------------------------------------

    async def _whole(self) -> Outcome:
        self._over = asyncio.Event()
        self._quiet = asyncio.Event()
        absent = set(starting_absent(self._topology))
        for rank in self._in_some_order():
            if rank not in absent:
                self._start(rank)
        expecting = self._expect_next_moment()
        stop = self._plan.experiment.stop
        if stop.time_s is not None:
            self._clock.call_at(stop.time_s, lambda: self._stop(TIME))
        if not self._nodes and not expecting:
            self._over.set()
        await self._over.wait()
        if self._bug is not None:
            raise self._bug
        return self._conclude()

    def _in_some_order(self) -> list[int]:
        order = sorted(self._node_plans)
        if self._shuffle is not None:
            Random(self._shuffle).shuffle(order)  # noqa: S311
        return order

    def _conclude(self) -> Outcome:
        now = self._clock.now()
        try:
            if self._rules.has_averages_at_the_end:
                for decision in self._rounds.end(self._rules.staying([])):
                    self._average(decision)
        except TOLD as problem:  # the nodes have met it too
            self._log.write(Event(now, "average-lost", failure_of(problem).message))
        self._log.write(self._rules.over(now))
        return self._rules.outcome(now, has_begun=True)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _start(self, rank: int, rejoin: str | None = None, first_round: int = 0) -> None:
        """A node begins, or begins again."""
        plan = self._node_plans[rank]
        node = self._nodes[rank] = VirtualNode(
            plan,
            self._directory.node(plan.node.name),
            self._shared,
            self._clock,
            self._network.transport(rank),
            self,
            self._build,
            rejoin,
            first_round,
        )
        self._network.attach(rank, partial(self._take, node))
        self._log.write(Event(self._clock.now(), "joined", node=plan.node.name))
        self._idle.discard(rank)
        node.begin(lambda: self._until_quiet(rank), lambda task: self._lived(rank, node, task))
        self._untold[rank] = {other for other, each in self._nodes.items() if each.life.reason is Reason.FINISHED}
        self._tell_who_has_finished()

    def _take(self, node: VirtualNode, sender: int, message: Message) -> None:
        node.life.node.mailbox.put(sender, message)
        if sender in self._untold.get(node.life.node.rank, ()):
            self._tell_who_has_finished()  # that may have been the last of it

    def _lived(self, rank: int, node: VirtualNode, task: asyncio.Task[Reason]) -> None:
        if task.cancelled():  # it crashed, as the topology's events want it
            self._return_or_rest(rank)
            return
        if (problem := task.exception()) is not None:
            self._bug = problem
            self._over.set()
            return
        if (failure := node.life.failure) is not None:
            name = self._node_plans[rank].node.name
            self._rules.failed(rank, failure)
            self._log.write(Event(self._clock.now(), "failed", failure.message, node=name))
            node.write_traceback()
            self._stop(FAILED)
        else:
            self._rules.ended(rank, task.result())
        if task.result() is Reason.FINISHED:
            for other in self._living():
                self._untold[other].add(rank)
            self._tell_who_has_finished()
        if task.result() is Reason.LEFT:
            self._network.leave(rank)
        self._return_or_rest(rank)

    def _return_or_rest(self, rank: int) -> None:
        if rank in self._returning:
            self._returning.discard(rank)
            self._join(rank)
        self._look_around()

    def _tell_who_has_finished(self) -> None:
        """At the end of this instant: others may finish in it, too, and all nodes hear of all of them together."""
        if not self._is_telling_due:
            self._is_telling_due = True
            self._clock.at_end_of_instant(self._tell_now_who_has_finished)

    def _tell_now_who_has_finished(self) -> None:
        """Tells each node of those that have finished, unless the last of them is still coming or it is paused."""
        self._is_telling_due = False
        coming = self._network.on_the_way(set[int]().union(*self._untold.values()))
        for to in self._living():
            untold = self._untold[to]
            news = sorted(rank for rank in untold if (rank, to) not in coming)
            if news and not self._network.is_paused(to):
                untold.difference_update(news)
                self._nodes[to].life.node.others_finished(news)

    async def _until_quiet(self, rank: int) -> None:
        """Until no node does anything but serve others."""
        self._idle.add(rank)
        self._look_around()
        await self._quiet.wait()

    def _look_around(self) -> None:
        left = remaining(self._living(), self._idle, is_any_coming=False)
        if left is not Remaining.WORK:
            self._quiet.set()
        if left is Remaining.NOTHING:
            self._over.set()

    def _living(self) -> list[int]:
        return [rank for rank, each in sorted(self._nodes.items()) if not each.is_over]

    # -- what happens to them --------------------------------------------------------------------------------------

    def _expect_next_moment(self) -> bool:
        """Whether there is one."""
        moment = next(self._moments, None)
        if moment is None:
            return False
        at_s, changes, network = moment

        def apply() -> None:
            if network is not self._graph:
                self._graph = network
                self._network.change(network)
            for change in changes:
                self._apply(change, at_s)
            self._expect_next_moment()

        self._clock.call_at(at_s, apply)
        return True

    def _apply(self, change: Change, planned_s: float) -> None:
        if not isinstance(change, NodesChange):
            self._log.write(Event(self._clock.now(), "network-changed", words(change), planned_t=planned_s))
            return
        for rank in change.ranks:
            name = self._node_plans[rank].node.name
            self._log.write(Event(self._clock.now(), str(change.action.value), node=name, planned_t=planned_s))
            self._act(change.action, rank)

    def _act(self, action: NodeAction, rank: int) -> None:
        node = self._nodes.get(rank)
        living = node if node is not None and node.lives else None
        match action:
            case NodeAction.JOIN if living is not None:
                if living.is_ending:
                    self._returning.add(rank)
            case NodeAction.JOIN if self._rules.may_join(rank):
                self._join(rank)
            case NodeAction.LEAVE if living is not None:
                self._returning.discard(rank)
                living.life.end_early(Reason.LEFT)
            case NodeAction.CRASH if living is not None:
                self._returning.discard(rank)
                self._network.detach(rank)
                living.crash()
                self._rules.died_as_planned(rank)
            case NodeAction.PAUSE if living is not None:
                living.clock.pause()
                self._network.pause(rank)
            case NodeAction.RESUME if living is not None:
                living.clock.resume()
                self._network.resume(rank)
                self._tell_who_has_finished()

    def _join(self, rank: int) -> None:
        rejoin, first_round = self._rules.next_life(has_lived=rank in self._nodes)
        self._rules.life_begins(rank)
        self._rounds.forget(rank)
        self._start(rank, rejoin, first_round)

    def _stop(self, reason: str) -> None:
        """All nodes end."""
        self._rules.stop(reason)
        self._returning.clear()
        for rank in sorted(self._nodes):
            self._nodes[rank].life.end_early(Reason(node_reason(reason)))

    def _cut(self) -> None:
        """A node's code did not let the run end in good order: what is known is written, and no node is waited for."""
        self._shared.pool.give_up()
        self._log.write(msgspec.structs.replace(self._rules.over(self._clock.now()), reason=INTERRUPTED))
        self._log.close()

    def _stalled(self) -> None:
        """Nothing can happen any more: every node waits that has not done its work, whether it says for what or not."""
        waiting = [rank for rank in self._living() if rank not in self._idle]
        awaited = {rank: words for rank in waiting if (words := self._awaited(rank)) is not None}
        failures = failures_in_vain(self._plan, waiting, awaited, "nothing else can happen any more")
        for rank, failure in failures.items():
            self._nodes[rank].life.fail(failure)

    def _awaited(self, rank: int) -> str | None:
        """The names of those whose messages a node waits for."""
        awaited = self._nodes[rank].life.node.mailbox.awaited()
        names = [self._node_plans[missing].node.name for each in awaited for missing in sorted(each.missing)]
        return f"{some_names(names)} in round {awaited[0].round}" if names else None

    # -- what is seen (Observer) -----------------------------------------------------------------------------------

    def recorded(self, rank: int, record: AnyRecord) -> None:
        """Raises CannotWrite where the run directory is gone: results that cannot be found need not be computed."""
        if monotonic() - self._looked_at > _LOOK_S:
            self._looked_at = monotonic()
            if not self._directory.path.exists():
                raise CannotWrite(f"the run directory {self._directory.path} was removed while the run went on")
        self._rules.recorded(rank, record)
        if isinstance(record, Round) and self._tell is not None and monotonic() - self._told_at > _TELL_EVERY_S:
            self._told_at = monotonic()
            self._tell(self._rules.progress.look(self._clock.now()))

    def model(self, rank: int, round_: int, vector: Vector) -> None:
        if self._plan.experiment.stop.accuracy is not None and not self._is_accuracy_due:
            # Others may be evaluated at this very instant, and all of them or none count.
            self._is_accuracy_due = True
            self._clock.at_end_of_instant(self._stop_if_good_enough)
        if self._node_plans[rank].node.learner is None:
            return
        staying = self._rules.staying(self._living())
        for decision in self._rounds.left(rank, round_, self._clock.now(), vector, staying):
            self._average(decision)

    def _average(self, decision: Decision[Vector]) -> None:
        """Its record is of the moment at which it is known: those of an instant are in one place of the log."""
        now = self._clock.now()
        if isinstance(decision, Complete):
            models = list(decision.models.values())
            found = evaluate_average(models, lambda vector: self._shared.pool.evaluate(vector, -1).result())
            score = found.accuracy, found.loss, found.consensus_distance
            self._log.write(Average(now, decision.round, len(models), *score))
        elif isinstance(decision, Lost):
            self._log.write(lost_average(now, decision.round, decision.why))

    def _stop_if_good_enough(self) -> None:
        self._is_accuracy_due = False
        for rank in self._living():
            life = self._nodes[rank].life
            try:
                life.node.settle_evaluations()
            except TOLD as problem:
                life.fail(failure_of(problem))
        if self._rules.is_accurate_enough(self._living()):
            self._stop(ACCURACY)
