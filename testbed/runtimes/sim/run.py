"""A whole run in virtual time.

Takes a `RunPlan` and its run directory, gives an `Outcome`; writes the nodes' journals and control's log, and has
worker processes for the arithmetic. The same plan gives the same bytes.
"""

from __future__ import annotations

import asyncio
import math
import traceback
from contextlib import suppress
from random import Random
from time import monotonic

from testbed.control.change_words import words
from testbed.control.log import ControlLog
from testbed.control.outcome import NodeFailure, Outcome
from testbed.control.progress import Tell, Watch
from testbed.journal import CannotWrite, Journal
from testbed.network.graph import expand
from testbed.network.moment import moments, network_before
from testbed.network.timeline import Change, NodesChange
from testbed.node.life import TOLD, Life, Reason, build_of_this_process, failure_of
from testbed.node.mailbox import PAST, SENT_AGAIN
from testbed.node.node import Node
from testbed.node.sharing.base import MODEL
from testbed.node.snapshots import Snapshot, newest_snapshot
from testbed.node.unawaited import unawaited_are_told
from testbed.node.world import Vector
from testbed.plan.files import split
from testbed.plan.flows_of import flows_of
from testbed.plan.model import NodePlan, RunPlan
from testbed.records import AnyRecord, Event, Failure, Over, Round
from testbed.rundir import RunDirectory
from testbed.runtimes.sim.averages import Averages
from testbed.runtimes.sim.clock import VirtualClock, run
from testbed.runtimes.sim.compute import Shared, SimCompute
from testbed.runtimes.sim.network import VirtualNetwork
from testbed.runtimes.sim.node_clock import NodeClock
from testbed.topologies.event_checks import starting_absent
from testbed.topologies.model import NodeAction

_LOOK_S = 1.0
"""Of real time, between two looks whether the run directory is there."""
_TELL_EVERY_S = 0.2
"""Of real time: what people look at must not cost the run its speed."""


class _Interruption:
    """Lets an interrupt, which comes at any moment of real time, happen between two instants of virtual time."""

    def __init__(self, whole: SimRun) -> None:
        self._whole = whole

    def next_s(self) -> float:
        return 0.0 if self._whole.wants_to_end else math.inf  # in the past, which is: at once

    def advance(self, to_s: float) -> None:  # noqa: ARG002
        if self._whole.wants_to_end:
            self._whole.end_interrupted()


class _Resident:
    """A node that lives, with what the runtime needs to end or pause it."""

    def __init__(self, life: Life, clock: NodeClock, compute: SimCompute, journal: Journal) -> None:
        self.life = life
        self.clock = clock
        self.compute = compute
        self.journal = journal
        self.task: asyncio.Task[Reason] | None = None

    @property
    def is_ending(self) -> bool:
        """It leaves, or has just crashed."""
        return self.life.is_ending or (self.task is not None and self.task.cancelling() > 0)


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
        self._learners = tuple(node.rank for node in plan.nodes if node.learner is not None)
        self._watch = Watch(self._learners, stop.rounds, stop.time_s)
        self._averages = Averages(lambda vector: shared.pool.evaluate(vector, -1).result())
        self._build = build_of_this_process()
        self._clock = VirtualClock()
        self._clock.on_stalled = self._stalled
        self._clock.on_cut = self._cut
        self._topology = plan.load_topology()
        graph = expand(self._topology)
        flows = flows_of(plan, network_before(self._topology, graph))
        self._graph = graph
        """The network as it is now."""
        self._network = VirtualNetwork(flows, self._clock)
        self._clock.drive(self._network)
        until_s = math.inf if stop.time_s is None else stop.time_s
        self._moments = moments(self._topology, graph, plan.seed, until_s, leavers_keep_links=True)
        self._log = ControlLog(directory.events, is_virtual=True)
        self._residents: dict[int, _Resident] = {}
        self._failures: list[NodeFailure] = []
        self._finished: set[int] = set()
        self._to_the_end: list[int] = []
        self._reason = "finished"
        self._is_judging = False
        self._returning: set[int] = set()
        """Nodes that join as soon as they are gone."""
        self._idle: set[int] = set()
        """Nodes that live on only to serve others."""
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
            for resident in self._residents.values():
                resident.journal.close()

    def interrupt(self) -> None:
        """End soon, in good order; safe to call from a signal handler."""
        self._interrupted = True

    @property
    def wants_to_end(self) -> bool:
        return self._interrupted

    def end_interrupted(self) -> None:
        self._interrupted = False
        self._stop("interrupted", Reason.INTERRUPTED)

    # -- the run ---------------------------------------------------------------------------------------------------

    async def _whole(self) -> Outcome:
        self._over = asyncio.Event()
        self._quiet = asyncio.Event()
        absent = set(starting_absent(self._topology))
        for rank in self._in_some_order():
            if rank not in absent:
                self._settle_in(rank, rejoin=None)
        expecting = self._expect_next_moment()
        stop = self._plan.experiment.stop
        if stop.time_s is not None:
            self._clock.call_at(stop.time_s, lambda: self._stop("time", Reason.STOPPED))
        if not self._residents and not expecting:
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
        try:
            learners = [rank for rank in self._to_the_end if self._node_plans[rank].node.learner is not None]
            for average in self._averages.complete(learners, self._clock.now()):
                self._log.write(average)
        except TOLD as problem:  # the nodes have met it too
            self._log.write(Event(self._clock.now(), "average-lost", failure_of(problem).message))
        failures = tuple(sorted(self._failures, key=lambda each: each.node))
        finished = len(self._finished)
        self._log.write(Over(self._clock.now(), self._reason, finished, len(failures)))
        last = self._watch.look(self._clock.now())
        return Outcome(self._reason, self._clock.now(), finished, failures, last, remarks=self._watch.remarks)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _settle_in(self, rank: int, rejoin: str | None) -> None:
        """A node begins, or begins again."""
        plan = self._node_plans[rank]
        directory = self._directory.node(plan.node.name)
        clock = NodeClock(self._clock)
        compute = SimCompute(self._shared, plan, clock)
        snapshot, first_round = self._begin_with(plan, rejoin)
        compute.begin_anew()
        journal = Journal(directory.journal)
        node = Node(
            plan,
            clock=clock,
            transport=self._network.transport(rank),
            compute=compute,
            journal=journal,
            observer=self,
            snapshot=snapshot,
            first_round=first_round,
            snapshots=directory.snapshots,
        )
        life = Life(node, self._build, rejoin)
        resident = _Resident(life, clock, compute, journal)
        self._residents[rank] = resident
        self._network.attach(rank, node.mailbox.put)
        self._log.write(Event(self._clock.now(), "joined", node=plan.node.name))
        self._idle.discard(rank)
        resident.task = asyncio.ensure_future(life.live(lambda: self._until_quiet(rank)))
        resident.task.add_done_callback(lambda task: self._lived(rank, resident, task))
        self._tell_who_has_finished()

    def _begin_with(self, plan: NodePlan, rejoin: str | None) -> tuple[Snapshot | None, int]:
        """A node that comes later begins with the round of the slowest, so that nobody has to wait for older ones."""
        if rejoin is None:
            return None, 0
        saved = None
        if rejoin == "last":
            saved = newest_snapshot(self._directory.node(plan.node.name).snapshots, self._shared.initial.size)
        return saved, self._watch.round_of_the_slowest()

    def _lived(self, rank: int, resident: _Resident, task: asyncio.Task[Reason]) -> None:
        resident.clock.stop()
        resident.compute.abandon()
        if task.cancelled():  # it crashed, as the topology's events want it
            self._return_or_rest(rank)
            return
        if (problem := task.exception()) is not None:
            self._bug = problem
            self._over.set()
            return
        if resident.life.failure is not None:
            name = self._node_plans[rank].node.name
            self._failures.append(NodeFailure(name, resident.life.failure))
            self._log.write(Event(self._clock.now(), "failed", resident.life.failure.message, node=name))
            self._write_traceback(name, resident.life.raised)
            self._stop("failed", Reason.STOPPED)
        else:
            if resident.life.reason is not Reason.INTERRUPTED:
                self._finished.add(rank)
            if resident.life.reason is not Reason.LEFT:
                self._to_the_end.append(rank)
        self._tell_who_has_finished()
        if task.result() is Reason.LEFT:
            self._network.leave(rank)
        self._return_or_rest(rank)

    def _write_traceback(self, name: str, raised: BaseException | None) -> None:
        """Into the node's log, as in every runtime: how its code came to where it failed."""
        if raised is None:
            return
        path = self._directory.node(name).log
        try:
            with path.open("a") as log:
                traceback.print_exception(raised, file=log)
        except OSError as problem:
            raise CannotWrite(f"cannot write {path}: {problem.strerror or problem}") from problem

    def _return_or_rest(self, rank: int) -> None:
        if rank in self._returning:
            self._returning.discard(rank)
            self._join(rank)
        self._look_around()

    def _tell_who_has_finished(self) -> None:
        """Those that came back, and may lack what nobody can send them again; not while the last of it comes."""
        back = [rank for rank in self._living() if self._residents[rank].life.node.came_back]
        if not back:
            return
        done = [rank for rank, each in self._residents.items() if each.life.reason is Reason.FINISHED]
        coming = self._network.on_the_way((MODEL, SENT_AGAIN, PAST))
        for to in back:
            self._residents[to].life.node.others_finished([rank for rank in done if (rank, to) not in coming])

    async def _until_quiet(self, rank: int) -> None:
        """Until no node does anything but serve others."""
        self._idle.add(rank)
        self._look_around()
        await self._quiet.wait()

    def _look_around(self) -> None:
        living = self._living()
        if all(rank in self._idle for rank in living):
            self._quiet.set()
        if not living:
            self._over.set()

    def _living(self) -> list[int]:
        return [
            rank for rank, each in sorted(self._residents.items()) if each.task is not None and not each.task.done()
        ]

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
        resident = self._residents.get(rank)
        lives = resident is not None and resident.task is not None and not resident.task.done()
        match action:
            case NodeAction.JOIN if lives and resident is not None:
                if resident.is_ending:
                    self._returning.add(rank)
            case NodeAction.JOIN if resident is None or resident.life.reason is not Reason.FINISHED:
                self._join(rank)
            case NodeAction.LEAVE if lives and resident is not None:
                self._returning.discard(rank)
                resident.life.end_early(Reason.LEFT)
            case NodeAction.CRASH if lives and resident is not None and resident.task is not None:
                self._returning.discard(rank)
                self._network.detach(rank)
                resident.clock.stop()
                with suppress(*TOLD):
                    resident.life.node.settle_evaluations()
                resident.task.cancel()
                resident.journal.close()
                self._watch.gone(rank)
                self._finished.add(rank)
            case NodeAction.PAUSE if lives and resident is not None:
                resident.clock.pause()
                self._network.pause(rank)
            case NodeAction.RESUME if lives and resident is not None:
                resident.clock.resume()
                self._network.resume(rank)

    def _join(self, rank: int) -> None:
        back = rank in self._residents
        self._finished.discard(rank)
        self._settle_in(rank, self._plan.experiment.rejoin if back else "fresh")

    def _stop(self, reason: str, as_: Reason) -> None:
        """Everybody ends."""
        if self._reason == "finished":
            self._reason = reason
        self._returning.clear()
        for rank in sorted(self._residents):
            self._residents[rank].life.end_early(as_)

    def _cut(self) -> None:
        """Somebody's code did not let the run end in good order: what is known is written, and nobody waits."""
        self._shared.pool.give_up()
        self._log.write(Over(self._clock.now(), "interrupted", len(self._finished), len(self._failures)))
        self._log.close()

    def _stalled(self) -> None:
        for rank in self._living():
            self._residents[rank].life.fail(Failure(self._waits_in_vain(rank)))

    def _waits_in_vain(self, rank: int) -> str:
        awaited = self._residents[rank].life.node.mailbox.awaited()
        names = [self._node_plans[missing].node.name for each in awaited for missing in sorted(each.missing)]
        if not names:
            return "waits for a message that will never come, and nothing else can happen any more"
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        hint = "; `missing.then: skip` goes on without" if self._plan.experiment.missing.then == "wait" else ""
        return f"waits for {some} in round {awaited[0].round}, in vain: nothing else can happen any more{hint}"

    # -- what is seen (Observer) -----------------------------------------------------------------------------------

    def recorded(self, rank: int, record: AnyRecord) -> None:
        """Raises CannotWrite where the run directory is gone: what nobody will find again need not be computed."""
        if monotonic() - self._looked_at > _LOOK_S:
            self._looked_at = monotonic()
            if not self._directory.path.exists():
                raise CannotWrite(f"the run directory {self._directory.path} was removed while the run went on")
        self._watch.recorded(rank, record)
        if isinstance(record, Round) and self._tell is not None and monotonic() - self._told_at > _TELL_EVERY_S:
            self._told_at = monotonic()
            self._tell(self._watch.look(self._clock.now()))

    def model(self, rank: int, round_: int, vector: Vector) -> None:
        if self._plan.experiment.stop.accuracy is not None and not self._is_judging:
            # Others may be evaluated at this very instant, and all of them or none count.
            self._is_judging = True
            self._clock.at_end_of_instant(self._stop_if_good_enough)
        if self._node_plans[rank].node.learner is None:
            return
        self._averages.add(rank, round_, vector)
        for average in self._averages.complete(self._living_learners(), self._clock.now()):
            self._log.write(average)

    def _living_learners(self) -> list[int]:
        return [rank for rank in self._living() if self._node_plans[rank].node.learner is not None]

    def _stop_if_good_enough(self) -> None:
        """Judges by the server's model where there is one, else by the mean over learners."""
        self._is_judging = False
        for rank in self._living():
            life = self._residents[rank].life
            try:
                life.node.settle_evaluations()
            except TOLD as problem:
                life.fail(failure_of(problem))
        server = self._plan.server
        judged = self._living_learners() if server is None else [server]
        if self._watch.has_reached(self._plan.experiment.stop.accuracy or 0.0, judged):
            self._stop("accuracy", Reason.STOPPED)
