"""A whole run of real processes.

Takes a `RunPlan` and its run directory, gives an `Outcome`; starts an engine and a zygote, is the nodes' control, does
to them what the topology's events and other commands say, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import errno
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
from testbed.control.outcome import Outcome
from testbed.control.progress import Tell
from testbed.engines.kernel import raise_open_file_limit
from testbed.errors import TestbedError, UsageProblem
from testbed.journal import CannotWrite
from testbed.network.timeline import NodesChange, timeline
from testbed.plan.model import RunPlan
from testbed.protocol.fabric import ResetLink, SetLink
from testbed.protocol.zygote import Died, Discard, Judge
from testbed.records import Event
from testbed.rundir import RunDirectory
from testbed.runtimes.failed_start import failed_start
from testbed.runtimes.processes.backend import AllNodes, Backend, News
from testbed.runtimes.processes.device_watch import DeviceWatch
from testbed.runtimes.processes.engine import NONE, UNSHAPED, Engine
from testbed.runtimes.processes.excess import ExcessWatch
from testbed.runtimes.processes.injections import Injections
from testbed.runtimes.processes.loopback import LoopbackBlock
from testbed.runtimes.processes.node_actions import NodeActions, not_done
from testbed.runtimes.processes.stall_watch import StallWatch
from testbed.runtimes.processes.start_barrier import BarrierWatch
from testbed.runtimes.processes.unheard import UnheardWatch
from testbed.runtimes.tracking.process_records import Places
from testbed.topologies.event_checks import starting_absent

_GRACE_S = 10.0
"""How long nodes may take to end in good order before they are killed."""
_LAST_WORK_S = 60.0
"""How long they may take where models remain to be evaluated, besides `_LAST_WORK_EACH_S` for every node."""
_LAST_WORK_EACH_S = 1.0
_SOON_S = 10.0
"""Of emulated time: as long at least a run that goes on is taken to last, or its first moments would decide."""
_LOOK_S = 0.2
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
_DIRECTORY_S = 1.0
"""Between two looks whether the run directory is there."""


class RealRun:
    """One run; made once, run once."""

    def __init__(
        self,
        plan: RunPlan,
        directory: RunDirectory,
        ground: Backend,
        *,
        tell: Tell | None = None,
        begun: Callable[[float], None] | None = None,
        began_s: float | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`begun` is told, once, how many seconds it took until the start barrier, counted from `began_s`; `say`, what
        people should know while it goes on."""
        self._plan = plan
        self._directory = directory
        self._ground = ground
        self._tell = tell
        self._on_begun = begun
        self._say = say
        self._unheard: UnheardWatch | None = None
        self._began_s = time.monotonic() if began_s is None else began_s
        self._ready_s: float | None = None
        self._topology = plan.load_topology()
        self._places: Places
        self._control: Control
        self._log: ControlLog
        self._engine: Engine | None = None
        self._nodes: AllNodes | None = None
        self._door: CommandDoor | None = None
        self._actions: NodeActions | None = None
        self._injections: Injections | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._identity = 0, 0
        """Of the run directory: which device, which inode."""
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
        """What goes wrong in a callback must not leave a run without control; a full disk is nobody's fault here."""
        if isinstance(problem, CannotWrite):
            self._control.break_down(problem.message)
        elif self._problem is None:
            self._problem = problem or RuntimeError("control failed")
            with suppress(TestbedError):
                self._control.break_down(f"control failed: {self._problem}")

    def _end_interrupted(self) -> None:
        self._control.stop("interrupted", "interrupted")
        if self._nodes is not None:
            self._nodes.give_up()

    # -- the run ---------------------------------------------------------------------------------------------------

    async def _whole(self) -> Outcome:
        raise_open_file_limit()  # one for every node
        info = self._directory.path.stat()
        self._identity = info.st_dev, info.st_ino
        self._places = self._ground.places(self._directory)
        try:
            self._log = ControlLog(self._directory.events)
        except BaseException:
            self._ground.leave()
            raise
        self._control = Control(self._plan, self._log, tell=self._tell, judge=self._judge)
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
        self._door = CommandDoor(self._places.commands_socket, self._obey)
        with LoopbackBlock(wanted=self._plan.engine == NONE) as block:
            news = News(self._began, self._died, self._control.judged, self._are_gone)
            self._nodes = self._ground.nodes(self._plan, self._control, block.number, news)
            # While that gets warm, which takes longer.
            self._engine = await self._ground.engine(self._plan, self._log.write, self._control.break_down)
            failure = await self._nodes.is_warm()
            if failure is not None and not self._control.is_ending:
                self._log.close()
                return failed_start(self._plan, self._directory, failure)
            return await self._run_nodes(self._nodes)

    async def _run_nodes(self, nodes: AllNodes) -> Outcome:
        absent = set(starting_absent(self._topology))
        first = [node.rank for node in self._plan.nodes if node.rank not in absent]
        assert self._engine is not None  # noqa: S101 - started before any node
        actions = self._actions = NodeActions(self._plan, self._control, self._log, self._engine, nodes)
        injections = self._injections = Injections(
            self._plan, self._control, self._log, self._engine, actions, self._cannot_control
        )
        self._soon(self._end_stragglers(actions, nodes))
        self._soon(DeviceWatch(self._plan, self._control, self._engine, nodes).watch())
        self._unheard = UnheardWatch(self._plan, self._control, self._log, actions, self._say)
        self._soon(self._unheard.watch())
        self._soon(ExcessWatch(self._plan, self._directory, self._control, nodes).watch())
        self._soon(self._watch_directory())
        if not self._control.is_ending:
            for rank in first:
                actions.start(rank)
            self._soon(BarrierWatch(self._plan, self._control, nodes).watch(first))
            if await self._control.all_ready(first):
                self._soon(self._follow_timeline(actions, injections, await self._begin()))
                stall = StallWatch(self._plan, self._control, self._engine, nodes, actions, injections)
                self._soon(stall.watch())
        return await self._control.over(self._engine.end)

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
        if self._actions is not None and self._control.pid_of(news.rank) == news.pid:
            self._soon(self._actions.died(news.rank))
        self._control.died(news.rank, news.pid, _words(news.status))

    def _judge(self, order: Judge | Discard) -> None:
        if self._nodes is not None:
            self._nodes.judge(order)

    def _are_gone(self, words: str) -> None:
        """All nodes die with it."""
        self._control.break_down(words)
        for rank in self._control.living:
            if (pid := self._control.pid_of(rank)) is not None:
                self._control.died(rank, pid, "it died with the process that it came from")

    async def _end_stragglers(self, actions: NodeActions, nodes: AllNodes) -> None:
        """Nobody may take for ever to end."""
        ended_at: float | None = None
        while True:
            await asyncio.sleep(_LOOK_S)
            now = time.monotonic()
            if self._control.is_ending:
                actions.resume_all()
            over = self._control.living and all(self._control.has_ended(rank) for rank in self._control.living)
            ended_at = (ended_at or now) if over else None
            since = self._control.stopped_at if self._control.stopped_at is not None else ended_at
            if since is None or now - since < self._patience_s():
                continue
            for rank in self._control.living:
                if self._control.is_hurried:
                    self._control.wants_dead(rank)
                nodes.signal(rank, signal.SIGKILL)
                if nodes.is_gone(rank) and (life := self._control.pid_of(rank)) is not None:
                    # Who buries nodes, and tells of it, may hang; a moment later the death is known without.
                    self._died(Died(rank, life, signal.SIGKILL))
            if self._control.is_ending:
                self._control.expect_nobody()

    async def _watch_directory(self) -> None:
        """What nobody will find again need not be computed: the run ends when its directory is gone."""
        while not self._control.is_ending:
            if not self._directory_is_there():
                path = self._directory.path
                self._control.break_down(f"the run directory {path} was removed or renamed while the run went on")
            await asyncio.sleep(_DIRECTORY_S)

    def _directory_is_there(self) -> bool:
        """What cannot be looked at now may be: a file system of the network has its moments."""
        try:
            found = self._directory.path.stat()
        except OSError as problem:
            return problem.errno not in _GONE
        # Mounted into a container, a directory that was removed outside is there still, without a name.
        return found.st_nlink > 0 and (found.st_dev, found.st_ino) == self._identity

    def _patience_s(self) -> float:
        if self._control.is_hurried:
            return _GRACE_S
        # What is evaluated takes as long as ever, what is on its way longer.
        return _LAST_WORK_S * self._plan.time_scale + _LAST_WORK_EACH_S * len(self._plan.nodes)

    # -- what happens to nodes -------------------------------------------------------------------------------------

    async def _follow_timeline(self, actions: NodeActions, injections: Injections, t0: float) -> None:
        stop_s = self._plan.experiment.stop.time_s
        until_s = float("inf") if stop_s is None else stop_s
        for change in timeline(self._topology, self._plan.seed, until_s):
            if not isinstance(change, NodesChange):
                continue  # the fabric's affair
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
            unheard=() if self._unheard is None else self._unheard.told(),
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
                self._nodes.close(_GRACE_S if self._in_good_order else 0.0)
            if self._engine is not None:
                self._engine.stop()
        finally:  # somebody may lose patience meanwhile
            self._ground.leave()

    def _why_overloaded(self, engine: tuple[str, ...], t: float) -> tuple[str, ...]:
        """The same words for those who look on and in the run's summary."""
        if self._ready_s is None:
            return ()
        return why_overloaded(engine, self._control.overruns, t)

    def _judged(self, outcome: Outcome) -> Outcome:
        """The outcome with what makes it overloaded; the same in the run's summary."""
        assert self._engine is not None  # noqa: S101 - or there would be no outcome
        engine, scale = self._engine.judge(), self._plan.time_scale
        overruns = self._control.overruns
        why = () if outcome.broken else self._why_overloaded(engine.overloaded, outcome.t)
        remarks = (UNSHAPED,) if self._plan.engine == NONE else ()
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
