"""Control's side of a fork server: of the zygote, or of the process that only evaluates averages.

Takes places, gives news of averages and nodes; starts and ends the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import BinaryIO

from testbed.control.packets import PacketLink
from testbed.cores import usable_cores
from testbed.engines.spawn import spawn_module
from testbed.errors import CouldNotStart
from testbed.isolation.sandbox import Sandbox, learner_environment
from testbed.protocol.nodes import Unable
from testbed.protocol.zygote import (
    FROM_ZYGOTE,
    AverageEvaluated,
    Died,
    Discard,
    EvaluateAverage,
    Fork,
    Forked,
    FromZygote,
    Warm,
)
from testbed.records import Failure
from testbed.run_files import read_end
from testbed.runtimes.processes.credentials import ask_for_senders, receive_with_sender
from testbed.runtimes.processes.start_barrier import HangDetector
from testbed.runtimes.tracking.ownership import MARK
from testbed.runtimes.tracking.proc_stat import busy_s, children_of
from testbed.runtimes.tracking.process_records import Places

_MOST_SAID = 2000
_LOOK_S = 1.0
_BEHIND = 2
"""Processes between which `isolation/launch` parts what they may do."""


class ForkServerClient:
    """A fork server, for use inside a running event loop."""

    _module = "testbed.runtimes.processes.fork_server"
    _what = "the process that evaluates averages"

    def __init__(
        self, places: Places, evaluated: Callable[[AverageEvaluated], None], gone: Callable[[str], None]
    ) -> None:
        """Told of: an average; why there will be no more news, if that was not wanted."""
        self._evaluated = evaluated
        self._gone = gone
        self._is_warm = asyncio.Event()
        self._can_fork = False
        self._unable: Unable | None = None
        self._is_closing = False
        self._is_lost = False
        self._log = places.runtime / "zygote.log"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with self._log.open("ab") as log, theirs:
                self._process = self._start(places, theirs.fileno(), log)
        except OSError as problem:
            ours.close()
            raise CouldNotStart(f"cannot start {self._what}: {problem.strerror or problem}") from problem
        self._link = self._talk(ours)
        self._waited = self._wait()
        self._look: asyncio.Handle = asyncio.get_running_loop().call_later(_LOOK_S, self._look_after)

    def _start(self, places: Places, theirs: int, log: BinaryIO) -> subprocess.Popen[bytes]:
        return spawn_module(
            self._module,
            [*self._words(places, theirs), str(os.getpid()), str(usable_cores())],
            stdout=log,
            stderr=log,
            pass_fds=[theirs],
            more_environment={MARK: places.mark},
        )

    def _words(self, places: Places, theirs: int) -> list[str]:
        return [str(places.run.path.resolve()), str(places.sockets), str(theirs)]

    def _talk(self, ours: socket.socket) -> PacketLink:
        return PacketLink(ours, self._hear, self._hung_up)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def is_warm(self) -> Failure | None:
        """Wait until nodes can be forked; what is wrong with the plan's code when they never can."""
        await self._is_warm.wait()
        if self._unable is not None:
            return Failure(self._unable.reason, self._unable.file, self._unable.line)
        return None

    def evaluate_average(self, order: EvaluateAverage | Discard) -> None:
        """Have an average tried, or forget about it."""
        self._link.send(order)

    def give_up(self) -> None:
        """`is_warm` returns at once."""
        self._is_warm.set()

    def close(self, patience_s: float) -> None:
        """It ends, and all nodes with it: at once without patience."""
        self._is_closing = True
        self._look.cancel()
        self._link.close()
        try:
            if patience_s:
                self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            pass
        self._process.kill()
        self._process.wait()

    def _hear(self, packet: bytes) -> None:
        self._take(FROM_ZYGOTE.read(packet))

    def _take(self, news: FromZygote) -> None:
        match news:
            case Warm():
                self._can_fork = True
                self._is_warm.set()
            case AverageEvaluated():
                self._evaluated(news)
            case Unable() as why:
                self._unable = why
                self._is_warm.set()
                if self._can_fork:
                    self._gone(why.reason)

    def _wait(self) -> HangDetector:
        return HangDetector(self._busy_s)

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    @property
    def _is_waited_for(self) -> bool:
        return not self._can_fork

    def _busy_s(self) -> float:
        """Of the process, and of those that wait for it."""
        return sum(map(busy_s, self.pids))

    def _look_after(self) -> None:
        """A process that hangs is given up: the run would wait for ever for what it was asked for."""
        is_wanted = self._unable is None and self._is_waited_for
        waited = self._waited.look() if is_wanted else None
        if waited is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK_S, self._look_after)
            return
        self._is_lost = True
        self._process.kill()
        wanted = "to start a node" if self._can_fork else "to get ready"
        self._gone(f"{self._what} hangs: it was {wanted}, and {waited}")
        self._is_warm.set()

    def _what_it_said(self) -> str:
        try:
            return read_end(self._log, self._log.parents[1], _MOST_SAID).decode(errors="replace").strip()
        except OSError:  # the run directory is gone, or something else is in the log's place
            return ""

    def _hung_up(self) -> None:
        if self._is_closing or self._is_lost or self._unable is not None:
            return
        status = self._process.wait()
        ended = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        said = self._what_it_said()
        if status > 0 and said:  # it has ended itself: its last line says why
            ended = f"{ended}: {said.splitlines()[-1]}"
        self._gone(f"{self._what} is gone ({ended})")
        self._is_warm.set()


class ZygoteClient(ForkServerClient):
    """The zygote: it forks nodes, too."""

    _module = "testbed.runtimes.processes.zygote"
    _what = "the process that all nodes are forked from"

    def __init__(
        self,
        places: Places,
        loopback: int,
        forked: Callable[[int, int], None],
        died: Callable[[Died], None],
        evaluated: Callable[[AverageEvaluated], None],
        gone: Callable[[str], None],
        sandbox: Sandbox | None = None,
    ) -> None:
        """Told of a node's rank and process id, and of a node's death, too.

        Without a sandbox nodes are not kept apart from each other, nor from this machine.
        """
        self._forked = forked
        self._died = died
        self._loopback = loopback
        self._sandbox = sandbox
        self._asked_for: Counter[int] = Counter()
        """Ranks of the nodes that are still to be forked."""
        self._outside: dict[int, int] = {}
        """Process ids as they are here, by what the zygote calls them in its own namespace."""
        self._sender_pid = 0
        super().__init__(places, evaluated, gone)

    def _start(self, places: Places, theirs: int, log: BinaryIO) -> subprocess.Popen[bytes]:
        module, parent, environment = self._module, str(os.getpid()), {MARK: places.mark}
        where, more = self._words(places, theirs), [str(usable_cores()), str(self._loopback)]
        passed, sandbox = [theirs], self._sandbox
        with ExitStack() as held:
            if sandbox is None:
                words = [*where, parent, *more, ""]
            else:
                told = sandbox.to_file()
                held.callback(os.close, told)
                passed.append(told)
                words = [str(told), parent, module, *where, "0", *more, str(told)]
                module = "testbed.isolation.launch"
                environment |= sandbox.environment
            return spawn_module(
                module,
                words,
                stdout=log,
                stderr=log,
                pass_fds=passed,
                more_environment=environment,
                inherited=None if sandbox is None else learner_environment(os.environ),
            )

    def _talk(self, ours: socket.socket) -> PacketLink:
        ask_for_senders(ours)
        return PacketLink(ours, self._hear, self._hung_up, receive=self._receive)

    def _receive(self, connection: socket.socket) -> bytes:
        packet, self._sender_pid = receive_with_sender(connection)
        return packet

    @property
    def pids(self) -> list[int]:
        """Of the process that was started, and where nodes are kept apart of the two behind it: the last one forks."""
        found = [self._process.pid]
        for _ in range(_BEHIND if self._sandbox is not None else 0):
            found += children_of(found[-1])[:1]
        return found

    @property
    def _is_waited_for(self) -> bool:
        return bool(self._asked_for) or not self._can_fork

    def fork(self, rank: int, rejoin: str | None, first_round: int) -> None:
        if not self._asked_for:
            self._waited = self._wait()
        self._asked_for[rank] += 1
        self._link.send(Fork(rank, rejoin, first_round))

    def _take(self, news: FromZygote) -> None:
        match news:
            case Forked(rank=rank, pid=pid):
                self._asked_for[rank] -= 1
                self._asked_for += Counter()  # without those that have come
                self._waited = self._wait()
                if self._sandbox is not None:
                    self._outside[pid] = self._sender_pid
                self._forked(rank, self._outside.get(pid, pid))
            case Died(rank=rank, pid=pid, status=status):
                self._died(Died(rank, self._outside.pop(pid, pid), status))
            case _:
                super()._take(news)
