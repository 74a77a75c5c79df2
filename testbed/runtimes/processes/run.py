"""A whole run of real processes: the conductor.

Takes a `RunPlan` and its run directory, gives an `Outcome`; starts processes, and leaves none behind. A run goes so:

1. The backend says where the run's sockets lie (`places`), and control's log is opened. From now on commands can ask
   how far the run is, at its command socket.
2. The backend starts what nodes come from, such as the zygote: a process that loads everything once, and forks every
   node. While that gets warm, the backend starts the engine, which carries the nodes' packets.
3. Each node gets a process (`NodeActions.start`). It makes its network device, hands it over to the engine, connects
   to its peers, and tells control that it is ready.
4. The start barrier: when the last node is ready, control tells all of them, and the engine, one moment to begin at.
   Emulated time is counted from there.
5. While nodes learn, they send every record of their journals to control, too. Control applies the rules of the run to
   them (`control/rules`): progress, stop rules, averages, failures. Beside it run the topology's timeline of node
   events (link events are the engine's), what commands inject (`Injections`), and the watches: for devices, memory,
   silence, stalls, stragglers, and the directory itself.
6. The run is over when every node has ended, by itself or because control has told all of them to. The engine ends
   last; then control's log gets its last record, and `summary.json` says how healthy the run was.
7. Whatever happened, every process is ended and every file of theirs removed, but results.

All parts share one `RunContext` and one asyncio loop. A problem in any task of it ends the run (`_cannot_control`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

from testbed.control.commands import (
    Command,
    CommandDoor,
    Done,
    EndRun,
    Look,
    Reply,
    Seen,
)
from testbed.control.control import Control
from testbed.control.health import emulated, summary_of, why_overloaded, write_summary
from testbed.control.log import ControlLog
from testbed.control.outcome import INTERRUPTED, Outcome
from testbed.control.progress import Tell
from testbed.engines.kernel import raise_open_file_limit
from testbed.errors import TestbedError, UsageProblem
from testbed.journal import CannotWrite
from testbed.network.timeline import Timeline
from testbed.plan.model import RunPlan
from testbed.protocol.fabric import ResetLink, SetLink
from testbed.protocol.zygote import Died, Discard, EvaluateAverage
from testbed.records import Event
from testbed.rundir import RunDirectory
from testbed.runtimes.failed_start import failed_start
from testbed.runtimes.processes.backend import AllNodes, Backend, News
from testbed.runtimes.processes.context import RunContext
from testbed.runtimes.processes.engine import NOT_SHAPED, Engine
from testbed.runtimes.processes.injections import Injections
from testbed.runtimes.processes.loopback import LoopbackBlock
from testbed.runtimes.processes.node_actions import NodeActions, not_done
from testbed.runtimes.processes.stall_watch import StallWatch
from testbed.runtimes.processes.start_barrier import BarrierWatch
from testbed.runtimes.processes.watches import (
    DeviceWatch,
    DirectoryWatch,
    ExcessWatch,
    StragglerWatch,
    UnheardWatch,
)
from testbed.runtimes.runtime import UNSHAPED
from testbed.runtimes.tracking.process_records import Places
from testbed.topologies.event_checks import starting_absent

_CLOSING_S = 10.0
"""How long the zygote may take to end in good order before it is killed."""
_SOON_S = 10.0
"""Of emulated time: as long at least a run that goes on is taken to last, or its first moments would decide."""


class RealRun:
    """One run; made once, run once."""

    def __init__(
        self,
        plan: RunPlan,
        directory: RunDirectory,
        backend: Backend,
        *,
        tell: Tell | None = None,
        begun: Callable[[float], None] | None = None,
        began_s: float | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`begun` is told, once, how many seconds it took until the start barrier, counted from `began_s`; `say` tells
        the user what to know while the run goes on."""
        self._plan = plan
        self._directory = directory
        self._backend = backend
        self._tell = tell
        self._on_begun = begun
        self._say = say
        self._unheard: UnheardWatch | None = None
        self._began_s = time.monotonic() if began_s is None else began_s
        self._ready_s: float | None = None
        stop_s = plan.experiment.stop.time_s
        until_s = float("inf") if stop_s is None else stop_s
        self._timeline = Timeline(plan.load_topology(), plan.seed, until_s)
        self._places: Places
        self._control: Control
        self._log: ControlLog
        self._engine: Engine | None = None
        self._nodes: AllNodes | None = None
        self._door: CommandDoor | None = None
        self._actions: NodeActions | None = None
        self._injections: Injections | None = None
        self._tasks: set[asyncio.Task[None]] = set()
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
        """What goes wrong in a callback must not leave a run without control; a full disk is no bug."""
        if isinstance(problem, CannotWrite):
            self._control.break_down(problem.message)
        elif self._problem is None:
            self._problem = problem or RuntimeError("control failed")
            with suppress(TestbedError):
                self._control.break_down(f"control failed: {self._problem}")

    def _end_interrupted(self) -> None:
        self._control.stop(INTERRUPTED)
        if self._nodes is not None:
            self._nodes.give_up()

    # -- the run ---------------------------------------------------------------------------------------------------

    async def _whole(self) -> Outcome:
        raise_open_file_limit()  # one for every node
        directory = DirectoryWatch(self._directory)
        self._places = self._backend.places(self._directory)
        try:
            self._log = ControlLog(self._directory.events)
        except BaseException:
            self._backend.leave()
            raise
        self._control = Control(self._plan, self._log, tell=self._tell, evaluate_average=self._evaluate_average)
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda _, context: self._cannot_control(context.get("exception")))
        try:
            if self._interrupted:
                self._end_interrupted()
            outcome = await self._between_start_and_end(directory)
            if self._problem is not None:
                raise self._problem
            self._in_good_order = True
        finally:
            await self._clean_up()
        return self._with_health(outcome)

    async def _between_start_and_end(self, directory: DirectoryWatch) -> Outcome:
        self._door = CommandDoor(self._places.commands_socket, self._obey)
        with LoopbackBlock(wanted=self._plan.engine == UNSHAPED) as block:
            news = News(self._began, self._died, self._control.averages.evaluated, self._are_gone)
            self._nodes = self._backend.nodes(self._plan, self._control, block.number, news)
            # While that gets warm, which takes longer.
            self._engine = await self._backend.engine(self._plan, self._log.write, self._control.break_down)
            failure = await self._nodes.is_warm()
            if failure is not None and not self._control.is_ending:
                self._log.close()
                return failed_start(self._plan, self._directory, failure)
            self._soon(directory.watch(self._control))
            return await self._run_nodes(self._context(self._engine, self._nodes))

    def _context(self, engine: Engine, nodes: AllNodes) -> RunContext:
        return RunContext(
            self._plan, self._directory, self._control, self._log, engine, nodes, self._timeline, self._say
        )

    async def _run_nodes(self, context: RunContext) -> Outcome:
        absent = set(starting_absent(self._plan.load_topology()))
        first = [node.rank for node in self._plan.nodes if node.rank not in absent]
        actions = self._actions = NodeActions(context)
        injections = self._injections = Injections(context, actions, self._cannot_control)
        self._unheard = UnheardWatch(context, actions)
        self._soon(StragglerWatch(context, actions, self._died).watch())
        self._soon(DeviceWatch(context).watch())
        self._soon(self._unheard.watch())
        self._soon(ExcessWatch(context).watch())
        if not self._control.is_ending:
            for rank in first:
                actions.start(rank)
            self._soon(BarrierWatch(context).watch(first))
            if await self._control.all_ready(first):
                self._soon(self._follow_timeline(actions, injections, await self._begin()))
                self._soon(StallWatch(context, actions, injections).watch())
        return await self._control.over(context.engine.end)

    async def _begin(self) -> float:
        t0 = self._control.begin()
        if self._engine is not None:
            await self._engine.begin(t0)
        self._ready_s = time.monotonic() - self._began_s
        if self._on_begun is not None:
            self._on_begun(self._ready_s)
        return t0

    # -- nodes and what they come from -----------------------------------------------------------------------------

    def _began(self, rank: int, life: int) -> None:
        self._control.started(rank, life)
        if self._actions is not None:
            self._soon(self._actions.began(rank))

    def _died(self, news: Died) -> None:
        if self._actions is not None and self._control.nodes.pid_of(news.rank) == news.pid:
            self._soon(self._actions.died(news.rank))
        self._control.died(news.rank, news.pid, _words(news.status))

    def _evaluate_average(self, order: EvaluateAverage | Discard) -> None:
        if self._nodes is not None:
            self._nodes.evaluate_average(order)

    def _are_gone(self, words: str) -> None:
        """All nodes die with it."""
        self._control.break_down(words)
        for rank in self._control.nodes.living:
            if (pid := self._control.nodes.pid_of(rank)) is not None:
                self._control.died(rank, pid, "it died with the process that it came from")

    # -- what happens to nodes -------------------------------------------------------------------------------------

    async def _follow_timeline(self, actions: NodeActions, injections: Injections, t0: float) -> None:
        for change in self._timeline.of_nodes():
            await asyncio.sleep(max(0.0, t0 + change.at_s * self._plan.time_scale - time.monotonic()))
            if self._control.is_ending:
                return
            injections.note(change.action, change.ranks)
            try:
                await actions.happen(change.action.value, change.ranks, change.at_s)
            except TestbedError as problem:
                names = ", ".join(self._plan.nodes[rank].name for rank in change.ranks)
                what = f"{change.action.value} {names}: {not_done(problem)}"
                self._log.write(Event(self._control.now(), "not-done", what, planned_t=change.at_s))

    def _soon(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """It is done meanwhile; what goes wrong in it ends the run."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._cannot_control(problem)

    # -- what other commands want ----------------------------------------------------------------------------------

    def _obey(self, command: Command) -> AsyncIterator[Reply]:
        match command:
            case Look():
                return self._seen()
            case EndRun():
                return self._end_run()
            case _ if self._injections is None or self._control.is_ending:
                raise UsageProblem("the run is not that far yet, or ends", "`testbed status` says how far it is")
            case _ if self._ready_s is None and not isinstance(command, SetLink | ResetLink):
                raise UsageProblem("the run has not begun yet", "`testbed status` says how far it is")
            case _:
                return self._injections.obey(command)

    async def _end_run(self) -> AsyncIterator[Reply]:
        self.interrupt()
        yield Done(self._control.now())

    async def _seen(self) -> AsyncIterator[Reply]:
        engine = None if self._engine is None else await self._engine.look()
        look = self._control.look()
        phase = "starting" if self._ready_s is None else "ending" if self._control.is_ending else "training"
        yield Seen(
            phase=phase,
            t=look.t,
            rounds=look.rounds,
            rounds_planned=look.rounds_planned,
            nodes=look.nodes,
            done=look.done,
            accuracy=look.accuracy,
            loss=look.loss,
            bytes_sent=look.bytes_sent,
            lateness_p99_ms=None if engine is None else emulated(engine.lateness, self._plan.time_scale).p99_ms,
            packets=None if engine is None else engine.packets,
            overloaded=self._why_overloaded(() if engine is None else engine.overloaded, max(look.t, _SOON_S)),
            unheard=() if self._unheard is None else self._unheard.silent(),
        )

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _clean_up(self) -> None:
        """Every process is gone, then every file of theirs."""
        try:
            if self._door is not None:
                self._door.close()
            if self._injections is not None:
                self._injections.close()
            for task in self._tasks:
                task.cancel()
            self._control.close()
            with suppress(TestbedError):
                self._log.close()
            if self._nodes is not None:
                self._nodes.close(_CLOSING_S if self._in_good_order else 0.0)
            if self._engine is not None:
                self._engine.stop()
        finally:  # the user may interrupt this, too
            self._backend.leave()

    def _why_overloaded(self, engine: tuple[str, ...], t: float) -> tuple[str, ...]:
        """The same words for those who look on and in the run's summary."""
        if self._ready_s is None:
            return ()
        return why_overloaded(engine, self._control.overruns, t)

    def _with_health(self, outcome: Outcome) -> Outcome:
        """The outcome with what makes it overloaded; the same in the run's summary."""
        assert self._engine is not None  # noqa: S101 - or there would be no outcome
        engine, scale = self._engine.health(), self._plan.time_scale
        overruns = self._control.overruns
        why = () if outcome.broken else self._why_overloaded(engine.overloaded, outcome.t)
        remarks = (NOT_SHAPED,) if self._plan.engine == UNSHAPED else ()
        outcome = replace(outcome, overloaded=why, remarks=(*remarks, *outcome.remarks))
        real_s = time.monotonic() - self._began_s
        summary = summary_of(
            self._plan,
            outcome,
            overruns,
            ready_s=self._ready_s,
            real_s=real_s,
            lateness=None if engine.lateness is None else emulated(engine.lateness, scale),
            device_waits=None if engine.device_waits is None else emulated(engine.device_waits, scale),
            data_plane=engine.data_plane,
        )
        try:
            write_summary(self._directory.path, summary)
        except CannotWrite as problem:
            return replace(outcome, broken=(*outcome.broken, problem.message))
        return outcome


def _words(status: int) -> str:
    """How a process ended."""
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit status {os.waitstatus_to_exitcode(status)}"
