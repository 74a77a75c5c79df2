"""This machine as the backend of a run: every node is a process, forked from the zygote.

Takes a plan and its run directory, gives nodes and an engine; keeps the record of processes, by which `destroy` goes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path

from testbed.control.control import Control
from testbed.cores import usable_cores
from testbed.engines.fabric.sockets import node_socket
from testbed.errors import CouldNotStart
from testbed.isolation.sandbox import LearnerUser, Sandbox
from testbed.isolation.sandbox_check import sandbox_support, what_is_denied
from testbed.node.compute_slots import holders, make_slots
from testbed.plan.hosts import hosts_of, hosts_text
from testbed.plan.model import RunPlan
from testbed.protocol.zygote import Discard, EvaluateAverage
from testbed.records import Event, Failure
from testbed.rundir import RunDirectory
from testbed.runtimes.processes.backend import News
from testbed.runtimes.processes.engine import Engine, start_engine
from testbed.runtimes.processes.learner_view import sandbox_of
from testbed.runtimes.processes.loopback import on_loopback
from testbed.runtimes.processes.zygote_client import ZygoteClient
from testbed.runtimes.tracking.file_owners import hand_over, keep_private, unused_user
from testbed.runtimes.tracking.leftovers import end_all, is_alive
from testbed.runtimes.tracking.ownership import end_marked, held_open
from testbed.runtimes.tracking.proc_stat import busy_s, descendants_of, stands_still
from testbed.runtimes.tracking.process_records import Places, ProcessRecord, make_places, process_record

_ATTEMPT_S, _ATTEMPTS_S = 0.003, 3.0
"""To pause nodes at a moment when they do not compute: one try, and all of them."""
_RECORD_S = 0.02
"""Between a node's start and the record of it. A node that is not in the record yet ends with the zygote, which is."""
_CONTROL = "control"
PidOf = Callable[[int], int | None]


class LocalBackend:
    """One run's."""

    def __init__(self) -> None:
        self._processes: dict[str, ProcessRecord] = {}
        self._places: Places
        self._held = ExitStack()
        """The run directory, open: by that control is known as the run's."""
        self._user: LearnerUser | None = None
        """Who learners are where root has started them."""
        self._writing: asyncio.TimerHandle | None = None

    def places(self, run: RunDirectory) -> Places:
        with ExitStack() as stack:
            stack.enter_context(held_open(run.path))  # before there is a record that names this process
            self._places = make_places(run)
            self._held = stack.pop_all()
        self._processes[_CONTROL] = process_record(_CONTROL, os.getpid())
        return self._places

    def nodes(self, plan: RunPlan, control: Control, loopback: int, news: News) -> LocalNodes:
        def forked(rank: int, pid: int) -> None:
            self._processes[_name(rank)] = process_record(_name(rank), pid)
            if self._writing is None:  # many are forked at once, and each record has all of them
                self._writing = asyncio.get_running_loop().call_later(_RECORD_S, self._write_record)
            news.began(rank, pid)

        keep_private(self._places.run)
        control.connections.listen(self._places.control_socket)
        sandbox = self._sandbox(plan, loopback)
        zygote = ZygoteClient(self._places, loopback, forked, news.died, news.evaluated, news.gone, sandbox=sandbox)
        self._remember("zygote", zygote.pid)
        return LocalNodes(zygote, LocalProcesses(control.nodes.pid_of, self._places.slots), self._is_gone)

    async def engine(self, plan: RunPlan, log: Callable[[Event], None], lost: Callable[[str], None]) -> Engine:
        engine = start_engine(plan, self._places, log, lost)
        if engine.pid is not None:
            self._remember("fabric", engine.pid)
        return engine

    def leave(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
        end_all(each for name, each in self._processes.items() if name != _CONTROL)
        end_marked(self._places.mark, (os.geteuid(), *(() if self._user is None else (self._user.uid,))))
        try:
            self._places.remove()
            hand_over(self._places.run)
        finally:
            self._held.close()

    def _sandbox(self, plan: RunPlan, loopback: int) -> Sandbox | None:
        """How learners are kept from this machine and from each other; None where it does not let them be."""
        hosts = hosts_of(plan)
        if loopback:
            hosts = {name: on_loopback(address, loopback) for name, address in hosts.items()}
        self._places.hosts.write_text(hosts_text(hosts))
        self._places.hosts.chmod(0o644)
        how = sandbox_support()
        if how.denied is not None:
            return None  # who starts the run has been told
        for node in plan.nodes:
            node_socket(self._places.sockets, node.rank).parent.mkdir(exist_ok=True)
        make_slots(self._places.slots, usable_cores())
        users = [unused_user(), None] if how.is_another else [None]
        denied = None
        for self._user in users:  # not every file system lets another user than root write
            sandbox = sandbox_of(plan, self._places, self._user, has_network=bool(loopback))
            denied = what_is_denied(sandbox)
            if denied is None:
                return sandbox
        raise CouldNotStart(f"learners cannot be kept apart here: {denied}")

    def _remember(self, name: str, pid: int) -> None:
        self._processes[name] = process_record(name, pid)
        self._write_record()

    def _write_record(self) -> None:
        self._writing = None
        self._places.write_record(self._processes.values())

    def _is_gone(self, rank: int, pid: int | None) -> bool:
        process = self._processes.get(_name(rank))
        return process is not None and process.pid == pid and not is_alive(process)


class LocalProcesses:
    """What can be done to the nodes' processes."""

    def __init__(self, pid_of: PidOf, slots: Path) -> None:
        self.pid_of = pid_of
        self._slots = slots

    def signal(self, rank: int, number: signal.Signals) -> None:
        pid = self.pid_of(rank)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def why_not_again(self, rank: int) -> str | None:  # noqa: ARG002
        """A process can always be forked."""
        return None

    def may_come_back(self, rank: int, times: int) -> None:
        """As ever."""

    async def pause(self, ranks: Collection[int], is_wanted: Callable[[int], bool]) -> list[int]:
        """None while it computes in a slot: it would keep that, and others never get their turn."""
        for rank in ranks:
            self.signal(rank, signal.SIGSTOP)
        until_s = time.monotonic() + _ATTEMPTS_S
        while (computing := await self._stopped_in_a_slot(ranks, is_wanted, until_s)) and time.monotonic() < until_s:
            for rank in computing:
                self.signal(rank, signal.SIGCONT)
            await asyncio.sleep(_ATTEMPT_S)
            for rank in computing:
                if is_wanted(rank):
                    self.signal(rank, signal.SIGSTOP)
        return computing

    async def _stopped_in_a_slot(
        self, ranks: Collection[int], is_wanted: Callable[[int], bool], until_s: float
    ) -> list[int]:
        """Who, now that all of them stand still; before that any of them may still take a slot, or let go of it."""
        moving = [pid for rank in ranks if is_wanted(rank) and (pid := self.pid_of(rank)) is not None]
        while (moving := [pid for pid in moving if not stands_still(pid)]) and time.monotonic() < until_s:
            await asyncio.sleep(_ATTEMPT_S)
        pids = holders(self._slots)
        return [rank for rank in ranks if is_wanted(rank) and self.pid_of(rank) in pids]

    def started_by(self, rank: int) -> list[int]:
        pid = self.pid_of(rank)
        return [] if pid is None else [pid, *descendants_of(pid)]

    def busy_s(self, rank: int) -> float:
        pid = self.pid_of(rank)
        return 0.0 if pid is None else busy_s(pid)


class LocalNodes:
    """The zygote and what comes from it."""

    def __init__(
        self, zygote: ZygoteClient, processes: LocalProcesses, is_gone: Callable[[int, int | None], bool]
    ) -> None:
        self._zygote = zygote
        self._processes = processes
        self._is_gone = is_gone
        self.why_not_again = processes.why_not_again
        self.may_come_back = processes.may_come_back
        self.signal = processes.signal
        self.pause = processes.pause
        self.busy_s = processes.busy_s
        self.started_by = processes.started_by

    async def is_warm(self) -> Failure | None:
        return await self._zygote.is_warm()

    def start(self, rank: int, rejoin: str | None, first_round: int) -> None:
        self._zygote.fork(rank, rejoin, first_round)

    def is_gone(self, rank: int) -> bool:
        return self._is_gone(rank, self._processes.pid_of(rank))

    def evaluate_average(self, order: EvaluateAverage | Discard) -> None:
        self._zygote.evaluate_average(order)

    def give_up(self) -> None:
        self._zygote.give_up()

    def close(self, patience_s: float) -> None:
        self._zygote.close(patience_s)


def _name(rank: int) -> str:
    return f"node {rank}"
