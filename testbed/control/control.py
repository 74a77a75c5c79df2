"""Control: the conversation with all nodes of a run in real time, from the start barrier until the last has ended.

Takes what nodes report, tells them when to begin and to end; touches its sockets and control's log. What follows from
what they report, `rules` says. How nodes are started, and what the topology's events do to them, is the runtime's
affair.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Mapping

import msgspec

from testbed.control.averages import Averages
from testbed.control.connections import NodeConnections
from testbed.control.health import of_all_lives
from testbed.control.log import ControlLog
from testbed.control.node_table import NodeProcess, NodeTable
from testbed.control.outcome import ACCURACY, FAILED, FINISHED, INTERRUPTED, TIME, Outcome
from testbed.control.progress import Progress, Tell
from testbed.control.rules import LEFT, STOPPED, Remaining, RunRules, node_reason, remaining
from testbed.control.stall import Inactivity, failures_in_vain
from testbed.errors import PreflightRefused
from testbed.journal import CannotWrite
from testbed.plan.model import RunPlan
from testbed.protocol.nodes import (
    Connect,
    Finished,
    FromNode,
    Go,
    Halt,
    Hello,
    Idle,
    Left,
    Listening,
    Overrun,
    Quiet,
    Ready,
    Recorded,
    Unable,
)
from testbed.protocol.zygote import Discard, EvaluateAverage
from testbed.records import AnyRecord, End, Evaluation, Event, Failure, Start

_RECORDS = msgspec.json.Decoder(AnyRecord)
_TELL_EVERY_S = 0.2
_GONE_EVERY_S = 0.1
"""Between two times of telling all nodes which have finished: the last of many nodes end one by one."""
_LEAD_S = 0.3
"""From telling all nodes to begin until the beginning: all have heard by then."""
_EVALUATING_S = 20.0
"""How long the run's end may wait for averages of models that are still to be evaluated."""
_SAME_HAND_S = 10.0
"""A program that ends all processes of a run, such as Compose, ends control at most so much later than the first node:
after as long Docker kills what it has asked to end."""


class Control:
    """One run's control, in one asyncio loop."""

    def __init__(
        self,
        plan: RunPlan,
        log: ControlLog,
        *,
        tell: Tell | None = None,
        evaluate_average: Callable[[EvaluateAverage | Discard], None] = lambda _: None,
    ) -> None:
        """`evaluate_average` is given orders; what comes of them goes to `averages.evaluated`."""
        self._plan = plan
        self._log = log
        self._tell = tell
        self._told_at = 0.0
        self._names = [node.name for node in plan.nodes]
        self.rules = RunRules(plan)
        self.nodes = NodeTable()
        self.inactivity = Inactivity()
        self.connections = NodeConnections(self.nodes, self)
        self.averages = Averages(log, evaluate_average)
        self._refusal: PreflightRefused | None = None
        self._is_unwritten = False
        """Control's log has no room: what happens from then on is lost."""
        self._unasked: dict[int, asyncio.TimerHandle] = {}
        """Nodes that have left though control has not told them to: unless the run is interrupted soon, they failed."""
        self._gone: set[int] = set()
        """Nodes that had done their work, and whose processes are over."""
        self._telling_gone: asyncio.TimerHandle | None = None
        """When nodes will be told of those, if that is due."""
        self._gone_told_at = -math.inf
        self._overruns: dict[tuple[int, int], Overrun] = {}
        """What each node has said last in each of its lives: rank and process id."""
        self._stopped_at: float | None = None
        self._changed = asyncio.Event()
        self._all_listen = False
        """Whether the nodes of the beginning have been told to connect."""
        self._begun_at: float | None = None

    # -- the runtime's side: nodes ---------------------------------------------------------------------------------

    def expect(self, rank: int) -> None:
        """A node will be started: the run is not over before it has lived."""
        self.nodes.expect(rank)
        self.rules.life_begins(rank)
        self.averages.lives_again(rank)

    def started(self, rank: int, pid: int) -> None:
        """A node's process was made: it will connect, or has."""
        if (doubt := self._unasked.pop(rank, None)) is not None:
            doubt.cancel()
        if rank in self._gone:
            self._gone.discard(rank)
            self._tell_which_are_gone()
        life = self.nodes.started(rank, pid)
        self._note(Event(self.now(), "joined", node=self._names[rank]))
        life.is_death_planned = self.is_ending
        self.connections.claim(rank, pid)

    def expect_no_more(self) -> None:
        """Nodes that have not come by now never will."""
        if self.nodes.expect_no_more():
            self._changed.set()

    async def all_ready(self, ranks: Collection[int]) -> bool:
        """Wait until these nodes are; once all of them listen, they connect. False when the run is over before."""
        if await self._until_none(self.nodes.not_listening, ranks):
            self._all_listen = True
            for _, life in self.nodes.lives():
                life.send(Connect())
        return await self._until_none(self.nodes.not_ready, ranks)

    async def _until_none(self, missing: Callable[[Collection[int]], list[int]], ranks: Collection[int]) -> bool:
        """Wait until none of these nodes is missing; False when the run is over before."""
        while missing(ranks) and not self.is_ending:
            await self._something()
        return not self.is_ending

    def never_begin(self, ranks: Collection[int], words: str) -> None:
        """These nodes have taken too long to get ready: the run fails."""
        for rank in ranks:
            self._fail(rank, Failure(words))

    def give_up(self, rank: int, words: str) -> None:
        """The run fails for this node, which is about to be killed."""
        if self.nodes.plan_death(rank):
            self._fail(rank, Failure(words))

    def died(self, rank: int, pid: int, words: str) -> None:
        """A node's process is over."""
        life = self.nodes.get(rank)
        if life is None or life.pid != pid:
            return
        self.connections.read_last_words(life)
        if life.end is None:
            self.rules.gone(rank)
            if life.unable is not None:
                self._cannot(rank, life.unable)
            elif life.is_death_planned:
                self.rules.died_as_planned(rank)
            else:
                self._note(Event(self.now(), "died", words, node=self._names[rank]))
                self._fail(rank, Failure(f"its process was over before its work: {words}"))
        elif life.end.reason == FINISHED:
            self._gone.add(rank)
            if self._telling_gone is None:  # many end at once
                wait_s = max(0.0, self._gone_told_at + _GONE_EVERY_S - time.monotonic())
                self._telling_gone = asyncio.get_running_loop().call_later(wait_s, self._tell_which_are_gone)
        self.nodes.remove(rank)
        self._look_around()

    # -- the runtime's side: the run -------------------------------------------------------------------------------

    def begin(self) -> float:
        """All nodes begin at the same moment of CLOCK_MONOTONIC, which it gives."""
        self._begun_at = time.monotonic() + _LEAD_S
        for _, life in self.nodes.lives():
            life.send(Go(self._begun_at))
        stop = self._plan.experiment.stop
        if stop.time_s is not None:
            lasts_s = stop.time_s * self._plan.time_scale
            asyncio.get_running_loop().call_later(lasts_s + _LEAD_S, lambda: self.stop(TIME))
        return self._begun_at

    def now(self) -> float:
        """Emulated seconds; 0 before the beginning."""
        return self.at(time.monotonic())

    def at(self, monotonic_s: float) -> float:
        """The emulated time of a moment of CLOCK_MONOTONIC."""
        return 0.0 if self._begun_at is None else max(0.0, monotonic_s - self._begun_at) / self._plan.time_scale

    def stop(self, reason: str) -> None:
        """All nodes end."""
        if self.rules.stop(reason):
            self._stopped_at = time.monotonic()
        if reason == INTERRUPTED:
            self.averages.give_up()
            for doubt in self._unasked.values():  # what ends the run has ended those nodes, too
                doubt.cancel()
            self._unasked.clear()
        for _, life in self.nodes.lives():
            if life.end is None:
                life.is_death_planned = life.is_death_planned or not life.has_begun
                life.send(Halt(node_reason(reason)))
        self._changed.set()

    def waits_in_vain(self) -> None:
        """Nothing will happen any more: the run fails, with which node waits for which."""
        quiet_s = self.inactivity.lasts_s(self.now())
        since = f"nothing has happened for {quiet_s:.0f} s of emulated time"
        working, awaited = self.nodes.working, self.inactivity.awaited
        # In real time a node that does not say what it waits for may be at work still.
        waiting = [rank for rank in working if rank in awaited] or working
        failures = failures_in_vain(self._plan, waiting, awaited, since)
        for rank, failure in failures.items():
            self._fail(rank, failure)

    def break_down(self, words: str) -> None:
        """A process that all nodes need is gone: the run cannot go on."""
        for _, life in self.nodes.lives():
            life.is_death_planned = True
        doomed = self.nodes.working
        self.nodes.expect_no_more()
        self.stop(FAILED)
        self.averages.give_up()
        self._hurry()
        if self.rules.broke(words, doomed):
            self._note(Event(self.now(), "broken", words))

    async def over(self, last: Callable[[], None] = lambda: None) -> Outcome:
        """Wait until every node is done; what `last`, called then, says to be broken still counts."""
        while self.nodes or self._unasked:
            await self._something()
        if self._refusal is not None and not self.rules.broken:  # else what was refused went with what broke
            raise self._refusal
        over_t = self.now()
        if self.rules.has_averages_at_the_end:
            try:
                await self.averages.settle(self.rules.staying([]), _EVALUATING_S)
            except CannotWrite as problem:
                self._cannot_write(problem)
        last()
        self._note(self.rules.over(over_t))
        return self.rules.outcome(over_t, has_begun=self._begun_at is not None)

    def close(self) -> None:
        self.connections.close()

    # -- what others want to know ----------------------------------------------------------------------------------

    @property
    def is_ending(self) -> bool:
        """Whether all nodes were told to end."""
        return self.rules.is_ending

    @property
    def is_hurried(self) -> bool:
        """Whether nodes have only a short while to end."""
        return self.rules.is_hurried

    @property
    def stopped_at(self) -> float | None:
        """Since when they have it, by CLOCK_MONOTONIC."""
        return self._stopped_at

    @property
    def overruns(self) -> Mapping[str, Overrun]:
        """What every node said of all its lives; of one that was killed, what it had said before. By name."""
        return of_all_lives(self._overruns, self._names)

    def look(self) -> Progress:
        return self.rules.progress.look(self.now())

    # -- the nodes' side -------------------------------------------------------------------------------------------

    def connected(self, life: NodeProcess) -> None:
        """A node that is to end already hears so at once."""
        if self.is_ending:
            life.send(Halt(STOPPED))
        elif life.halted is not None:
            life.send(Halt(life.halted))

    def heard(self, rank: int, life: NodeProcess, message: FromNode) -> None:
        """A node says something."""
        match message:
            case Hello():
                pass  # which node it is, its process id has told
            case Listening():
                life.is_listening = True
                if self._all_listen:
                    life.send(Connect())
            case Ready():
                life.is_listening = life.is_ready = True
                if self._begun_at is not None:
                    life.send(Finished(tuple(sorted(self._gone))))
                    life.send(Go(self._begun_at))
            case Recorded(text):
                self._record(rank, life, text)
            case Idle():
                life.is_idle = True
                self._look_around()
            case Left() if rank in self._plan.learners:
                left = msgspec.structs.replace(message, t=self._not_later(message.t))
                self.averages.left(rank, left, self.rules.staying(self.nodes.working))
            case Overrun():
                self._overruns[rank, life.pid] = message
            case Unable():
                life.unable = message
        self._changed.set()

    def _record(self, rank: int, life: NodeProcess, text: bytes) -> None:
        try:
            record = _RECORDS.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            self.connections.malformed(rank, life, str(problem))
            return
        if life.end is not None and isinstance(record, Start | End):
            self.connections.malformed(rank, life, "a life ends once")
            return
        if isinstance(record, Start):
            life.has_begun = True
        self.rules.recorded(rank, record)
        self.inactivity.recorded(rank, record, self.now())
        if isinstance(record, End):
            life.end = record
            self._ended(rank, life, record)
        if isinstance(record, Evaluation) and self.rules.is_accurate_enough(self.nodes.working):
            self.stop(ACCURACY)
        if self._tell is not None and time.monotonic() - self._told_at > _TELL_EVERY_S:
            self._told_at = time.monotonic()
            self._tell(self.look())

    def _ended(self, rank: int, life: NodeProcess, end: End) -> None:
        if end.failure is not None:
            self._fail(rank, end.failure)
        elif end.reason == LEFT and life.halted != LEFT and not self.is_ending:
            self._unasked[rank] = asyncio.get_running_loop().call_later(_SAME_HAND_S, self._left_unasked, rank)
        else:
            self.rules.ended(rank, end.reason)
        self._look_around()

    def _not_later(self, t: float) -> float:
        """A learner's time, which control's log can hold whatever it says."""
        return min(max(0.0, t), self.now())

    def noticed(self, rank: int, what: str, detail: str) -> None:
        """It is in control's log."""
        self._note(Event(self.now(), what, detail, node=self._names[rank]))

    def disconnected(self, rank: int, life: NodeProcess, words: str) -> None:
        """The node has failed, unless it has ended."""
        if life.end is None:
            life.is_death_planned = True
            self._fail(rank, Failure(words))

    def _left_unasked(self, rank: int) -> None:
        """What ended the node with SIGTERM, such as `docker stop`, did not end the run."""
        self._unasked.pop(rank, None)
        self._fail(rank, Failure("it was ended by SIGTERM, which came from outside of the run"))
        self._changed.set()

    # -- what follows ----------------------------------------------------------------------------------------------

    def _fail(self, rank: int, failure: Failure) -> None:
        self.rules.failed(rank, failure)
        self._note(Event(self.now(), "failed", failure.message, node=self._names[rank]))
        self.stop(FAILED)

    def _cannot(self, rank: int, why: Unable) -> None:
        """A node could not begin, or go on: before the start barrier nothing at all is trained then."""
        if why.unwritten:  # what all nodes need is gone
            self.break_down(f"{self._names[rank]}: {why.reason}")
        elif why.refused and self._begun_at is None:
            self._refusal = PreflightRefused(why.reason, why.hint)
            self._note(Event(self.now(), "refused", why.reason, node=self._names[rank]))
            self.stop(FAILED)
        else:
            self._fail(rank, Failure(why.reason, why.file, why.line))

    def _hurry(self) -> None:
        if self.rules.hurry():
            self._stopped_at = time.monotonic()

    def _look_around(self) -> None:
        """Nodes that only serve others may end when none of those works any more."""
        working = self.nodes.working
        idle = {rank for rank in working if self.nodes[rank].is_idle}
        left = remaining(working, idle, is_any_coming=self.nodes.is_any_coming)
        if left is Remaining.SERVING:
            for rank in working:
                self.nodes[rank].send(Quiet())
        elif left is Remaining.NOTHING:
            for _, life in self.nodes.lives():
                life.send(Halt(STOPPED))  # what it has sent last, no node will read any more
        self._changed.set()

    def _tell_which_are_gone(self) -> None:
        """Else those that still send to them would wait for as long as a peer may be silent."""
        if self._telling_gone is not None:
            self._telling_gone.cancel()
            self._telling_gone = None
        self._gone_told_at = time.monotonic()
        for rank in self.nodes.working:
            self.nodes[rank].send(Finished(tuple(sorted(self._gone))))

    def _note(self, record: AnyRecord) -> None:
        """What cannot be written ends the run, in as good order as may be: nothing else is left undone for it."""
        try:
            self._log.write(record)
        except CannotWrite as problem:
            self._cannot_write(problem)

    def _cannot_write(self, problem: CannotWrite) -> None:
        if self._is_unwritten:
            return
        self._is_unwritten = True
        self.rules.broke(problem.message)
        self.stop(FAILED)
        self._hurry()

    async def _something(self) -> None:
        self._changed.clear()
        await self._changed.wait()
