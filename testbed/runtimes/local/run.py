"""A whole run of real processes on this machine.

Takes a `RunPlan` and its run directory, gives an `Outcome`; starts an engine and a zygote, is the nodes' control, does
to them what the topology's events and other commands say, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from testbed.control.commands import Command, CommandDoor, Done, EndRun, Inject, Look, Reply, Seen
from testbed.control.control import Control
from testbed.control.health import summary_of, why_overloaded, write_summary
from testbed.control.log import ControlLog
from testbed.control.outcome import Outcome
from testbed.control.progress import Tell
from testbed.errors import TestbedError, UsageProblem
from testbed.network.timeline import NodesChange, timeline
from testbed.plan.model import RunPlan
from testbed.protocol import Died
from testbed.records import Event
from testbed.rundir import RunDirectory
from testbed.runtimes.local.engine import NONE, UNSHAPED, Engine, start_engine
from testbed.runtimes.local.leftovers import end_all
from testbed.runtimes.local.loopback import LoopbackBlock
from testbed.runtimes.local.nursery import Nursery
from testbed.runtimes.local.places import Places, ProcessRecord, make_places, process_record
from testbed.runtimes.sim.stillborn import stillborn
from testbed.topologies.event_checks import starting_absent
from testbed.topologies.model import NodeAction

_GRACE_S = 10.0
"""How long nodes may take to end in good order before they are killed."""
_LAST_WORK_S = 60.0
"""How long they may take where models remain to be evaluated, besides `_LAST_WORK_EACH_S` for every node."""
_LAST_WORK_EACH_S = 1.0
_LOOK_S = 0.2
KILL = "kill"


class LocalRun:
    """One run; made once, run once."""

    def __init__(
        self,
        plan: RunPlan,
        directory: RunDirectory,
        *,
        tell: Tell | None = None,
        begun: Callable[[float], None] | None = None,
        began_s: float | None = None,
    ) -> None:
        """`begun` is told, once, how many seconds it took until the start barrier, counted from `began_s`."""
        self._plan = plan
        self._directory = directory
        self._tell = tell
        self._on_begun = begun
        self._began_s = time.monotonic() if began_s is None else began_s
        self._ready_s: float | None = None
        self._topology = plan.load_topology()
        self._places: Places
        self._control: Control
        self._log: ControlLog
        self._engine: Engine | None = None
        self._nursery: Nursery | None = None
        self._door: CommandDoor | None = None
        self._processes: dict[str, ProcessRecord] = {}
        self._lived: set[int] = set()
        self._returning: set[int] = set()
        self._paused: set[int] = set()
        self._interrupted = False
        self._problem: BaseException | None = None
        self._in_good_order = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> Outcome:
        """Until every node is done; raises PreflightRefused when this machine denies what it needs."""
        return asyncio.run(self._whole())

    def interrupt(self) -> None:
        """End soon, in good order; safe to call from a signal handler."""
        self._interrupted = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end_interrupted)

    def _cannot_control(self, problem: BaseException | None) -> None:
        """What goes wrong in a callback, such as a full disk, must not leave a run without control."""
        if self._problem is None:
            self._problem = problem or RuntimeError("control failed")
            with suppress(TestbedError):
                self._control.break_down(f"control failed: {self._problem}")

    def _end_interrupted(self) -> None:
        self._control.stop("interrupted", "interrupted")
        if self._nursery is not None:
            self._nursery.give_up()

    # -- the run ---------------------------------------------------------------------------------------------------

    async def _whole(self) -> Outcome:
        self._places = make_places(self._directory)
        self._processes["control"] = process_record("control", os.getpid())
        self._log = ControlLog(self._directory.events)
        self._control = Control(self._plan, self._log, tell=self._tell)
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda _, context: self._cannot_control(context.get("exception")))
        try:
            if self._interrupted:
                self._end_interrupted()
            outcome = await self._between_start_and_end()
            if self._problem is not None:
                raise self._problem
            self._in_good_order = True
        finally:
            await self._clean_up()
        return self._judged(outcome)

    async def _between_start_and_end(self) -> Outcome:
        self._control.listen(self._places.control_socket)
        self._door = CommandDoor(self._places.commands_socket, self._obey)
        with LoopbackBlock(wanted=self._plan.engine == NONE) as block:
            self._engine = start_engine(self._plan, self._places, self._log.write, self._control.break_down)
            if self._engine.pid is not None:
                self._remember("fabric", self._engine.pid)
            self._nursery = Nursery(self._places, block.number, self._forked, self._died, self._nursery_is_gone)
            self._remember("zygote", self._nursery.pid)
            failure = await self._nursery.is_warm()
            if failure is not None and not self._control.is_ending:
                self._log.close()
                return stillborn(self._plan, self._directory, failure)
            return await self._run_nodes()

    async def _run_nodes(self) -> Outcome:
        absent = set(starting_absent(self._topology))
        first = [node.rank for node in self._plan.nodes if node.rank not in absent]
        watching = asyncio.ensure_future(self._end_stragglers())
        following: asyncio.Task[None] | None = None
        try:
            if not self._control.is_ending:
                for rank in first:
                    self._fork(rank, None, 0)
                if await self._control.all_ready(first):
                    following = asyncio.ensure_future(self._follow_timeline(self._begin()))
            return await self._control.over()
        finally:
            watching.cancel()
            if following is not None:
                following.cancel()

    def _begin(self) -> float:
        t0 = self._control.begin()
        if self._engine is not None:
            self._engine.begin(t0)
        self._ready_s = time.monotonic() - self._began_s
        if self._on_begun is not None:
            self._on_begun(self._ready_s)
        return t0

    def _remember(self, name: str, pid: int) -> None:
        self._processes[name] = process_record(name, pid)
        self._places.write_record(self._processes.values())

    # -- nodes and what they come from -----------------------------------------------------------------------------

    def _fork(self, rank: int, rejoin: str | None, first_round: int) -> None:
        self._control.expect(rank)
        self._lived.add(rank)
        if self._nursery is not None:
            self._nursery.fork(rank, rejoin, first_round)

    def _forked(self, rank: int, pid: int) -> None:
        self._remember(f"node {rank}", pid)
        self._control.started(rank, pid)

    def _died(self, news: Died) -> None:
        if self._engine is not None:
            self._engine.detach(news.rank)
        self._paused.discard(news.rank)
        self._control.died(news.rank, news.pid, _words(news.status))
        if news.rank in self._returning and not self._control.is_ending:
            self._returning.discard(news.rank)
            self._join(news.rank)

    def _nursery_is_gone(self, how: str) -> None:
        """All nodes die with it."""
        self._control.break_down(f"the process that all nodes are forked from is gone ({how})")
        for rank in self._control.living:
            if (pid := self._control.pid_of(rank)) is not None:
                self._control.died(rank, pid, "it died with the process that it came from")

    async def _end_stragglers(self) -> None:
        """Nobody may take for ever to end."""
        ended_at: float | None = None
        while True:
            await asyncio.sleep(_LOOK_S)
            now = time.monotonic()
            if self._control.is_ending:
                for rank in list(self._paused):
                    self._signal(rank, signal.SIGCONT)
                    self._paused.discard(rank)
            over = self._control.living and all(self._control.has_ended(rank) for rank in self._control.living)
            ended_at = (ended_at or now) if over else None
            since = self._control.stopped_at if self._control.stopped_at is not None else ended_at
            if since is None or now - since < self._patience_s():
                continue
            for rank in self._control.living:
                if self._control.reason in ("interrupted", "failed"):
                    self._control.wants_dead(rank)
                self._signal(rank, signal.SIGKILL)

    def _patience_s(self) -> float:
        if self._control.reason in ("interrupted", "failed"):
            return _GRACE_S
        return _LAST_WORK_S + _LAST_WORK_EACH_S * len(self._plan.nodes)

    def _signal(self, rank: int, number: signal.Signals) -> None:
        pid = self._control.pid_of(rank)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    # -- what happens to nodes -------------------------------------------------------------------------------------

    async def _follow_timeline(self, t0: float) -> None:
        stop_s = self._plan.experiment.stop.time_s
        until_s = float("inf") if stop_s is None else stop_s
        for change in timeline(self._topology, self._plan.seed, until_s):
            if not isinstance(change, NodesChange):
                continue  # the fabric's affair
            await asyncio.sleep(max(0.0, t0 + change.at_s - time.monotonic()))
            if self._control.is_ending:
                return
            for rank in change.ranks:
                try:
                    self._happen(change.action.value, rank, change.at_s)
                except TestbedError as problem:
                    name = self._plan.nodes[rank].name
                    self._log.write(Event(self._control.now(), "not-done", problem.message, node=name))

    def _happen(self, action: str, rank: int, planned_s: float) -> None:
        name = self._plan.nodes[rank].name
        self._log.write(Event(self._control.now(), action, node=name, planned_t=planned_s))
        if action == KILL:
            self._kill(rank)
        else:
            self._act(NodeAction(action), rank)

    def _act(self, action: NodeAction, rank: int) -> None:
        engine = self._engine
        lives = self._control.pid_of(rank) is not None
        match action:
            case NodeAction.JOIN if lives:
                self._returning.add(rank)  # it is about to go
            case NodeAction.JOIN:
                self._join(rank)
            case NodeAction.LEAVE:
                self._control.wants_dead(rank)
                self._control.halt(rank, "left")
            case NodeAction.CRASH:
                if engine is not None:
                    with suppress(UsageProblem):  # nobody can be cut off; the rest is the same
                        engine.cut(rank)
                self._kill(rank)
            case NodeAction.PAUSE if lives:
                self._paused.add(rank)
                self._signal(rank, signal.SIGSTOP)
            case NodeAction.RESUME if lives:
                self._paused.discard(rank)
                self._signal(rank, signal.SIGCONT)
            case NodeAction.DISCONNECT if engine is not None:
                engine.cut(rank)
            case NodeAction.RECONNECT if engine is not None:
                engine.uncut(rank)

    def _join(self, rank: int) -> None:
        if self._engine is not None:
            with suppress(UsageProblem):
                self._engine.uncut(rank)
        rejoin = self._plan.experiment.rejoin if rank in self._lived else "fresh"
        self._fork(rank, rejoin, self._control.round_of_the_slowest())

    def _kill(self, rank: int) -> None:
        self._control.wants_dead(rank)
        self._signal(rank, signal.SIGKILL)

    # -- what other commands want ----------------------------------------------------------------------------------

    def _obey(self, command: Command) -> Reply:
        match command:
            case Inject():
                return self._inject(command)
            case Look():
                return self._seen()
            case EndRun():
                self.interrupt()
                return Done(self._control.now())

    def _inject(self, command: Inject) -> Reply:
        if self._ready_s is None or self._control.is_ending:
            raise UsageProblem("the run does not go on now", "`testbed status` says how far it is")
        if command.action != KILL and command.action not in set(NodeAction):
            raise UsageProblem(f"nothing called {command.action} can happen to a node")
        for rank in command.ranks:
            if not 0 <= rank < len(self._plan.nodes):
                raise UsageProblem(f"there is no rank {rank}")
        asked_s = self._control.now()
        for rank in command.ranks:
            self._happen(command.action, rank, asked_s)
        self._log.flush()
        return Done(self._control.now())

    def _seen(self) -> Seen:
        look = self._control.look()
        engine = None if self._engine is None else self._engine.look()
        phase = "starting" if self._ready_s is None else "ending" if self._control.is_ending else "training"
        return Seen(
            phase=phase,
            t=look.t,
            rounds=look.rounds,
            rounds_planned=look.rounds_planned,
            nodes=look.nodes,
            done=look.done,
            accuracy=look.accuracy,
            loss=look.loss,
            bytes_sent=look.bytes_sent,
            lateness_p99_ms=None if engine is None else engine.lateness.p99_ms,
            packets=None if engine is None else engine.packets,
            overloaded=() if engine is None else engine.overloaded,
        )

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _clean_up(self) -> None:
        """Every process is gone, then every file of theirs."""
        try:
            if self._door is not None:
                self._door.close()
            self._control.close()
            with suppress(TestbedError):
                self._log.close()
            if self._nursery is not None:
                self._nursery.close(_GRACE_S if self._in_good_order else 0.0)
            if self._engine is not None:
                self._engine.stop()
        finally:  # somebody may lose patience meanwhile
            end_all(each for name, each in self._processes.items() if name != "control")
            self._places.remove()

    def _judged(self, outcome: Outcome) -> Outcome:
        """The outcome with what makes it overloaded; the same in the run's summary."""
        assert self._engine is not None  # noqa: S101 - or there would be no outcome
        engine, lateness = self._engine.judge()
        overruns = self._control.overruns
        why: tuple[str, ...] = ()
        if self._ready_s is not None and not outcome.broken:
            why = why_overloaded(engine, overruns, self._plan.ms_per_step)
        remarks = (UNSHAPED,) if self._plan.engine == NONE else ()
        outcome = replace(outcome, overloaded=why, remarks=remarks)
        real_s = time.monotonic() - self._began_s
        summary = summary_of(
            self._plan.run_id, outcome, overruns, ready_s=self._ready_s, real_s=real_s, lateness=lateness
        )
        write_summary(self._directory.path, summary)
        return outcome


def _words(status: int) -> str:
    """How a process ended."""
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit status {os.waitstatus_to_exitcode(status)}"
