"""The learner supervisor: the first process of a learner's container, after it has its network and no privileges.

Takes control's orders, reports to control; touches the learner's process and its log. As process 1, it forwards signals
to the learner, reaps orphans, and ends the container when the learner ends. One start of the container is one life of
the node.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from testbed.engines.privileges import acting_as
from testbed.node.compute_slots import holders
from testbed.node.training_process import fork_worker
from testbed.protocol.message import Message, encode
from testbed.protocol.nodes import Unable
from testbed.protocol.zygote import Died, Fork, Forked
from testbed.runtimes.containers import CONTROL_SOCKET
from testbed.runtimes.containers.arrival import Arrived
from testbed.runtimes.containers.container_paths import ContainerPaths
from testbed.runtimes.containers.end_mark import leave_mark, remove_mark
from testbed.runtimes.containers.first_process import await_message, reap, receive, send
from testbed.runtimes.containers.supervisor_messages import KILL, PAUSE, RESUME, TO_SUPERVISOR, Do, Paused, Used
from testbed.runtimes.tracking.proc_stat import busy_s, stands_still
from testbed.socket_paths import connect

AGAIN = 75
"""Exit code that makes Docker start the container again."""
_TELL_EVERY_S = 2.0
_ATTEMPT_S, _ATTEMPTS_S = 0.003, 3.0
"""Limits of pausing the learner's processes at a moment when none computes: of one attempt, and of all."""
_CHUNK_BYTES = 65_536
_CHUNKS_AT_ONCE = 16
"""Limit of the learner's output that is copied before control's messages are read: what a pipe holds at most."""
Live = Callable[[ContainerPaths, Fork], None]
_ALL_PROCESSES = -1
"""For `kill`: all processes that the caller may signal, except itself and process 1."""


class Supervisor:
    """Supervises one life of a node."""

    def __init__(self, inside: ContainerPaths, arrived: Arrived, live: Live) -> None:
        """`live` is what the learner does, in a process of its own."""
        self._inside = inside
        self._user = arrived.user
        self._control = arrived.control
        self._signals = arrived.signals
        self._first = arrived.order
        self._denied = arrived.denied
        self._live = live
        self._learner: int | None = None
        self._signals.asked_to_leave = lambda: self._signal(signal.SIGTERM)

    def run(self) -> int:
        """Runs until the learner has ended, and gives its exit code; 0 if the run did not need it."""
        with self._control as control:
            order = self._first_order()
            if order is None:
                return 0
            _send(control, Forked(order.rank, os.getpid()))
            if self._denied is not None:
                why = Unable(self._denied.message, self._denied.hint, refused=True)
                return self._give_up(control, order, why)
            return self._linger(control, self._attend(control, order))

    # -- until the learner is there --------------------------------------------------------------------------------

    def _first_order(self) -> Fork | None:
        if self._first and not self._signals.is_asked_to_leave:
            order = TO_SUPERVISOR.read(self._first)
            if isinstance(order, Fork):
                return order
        return self._next_fork(self._control)

    def _next_fork(self, control: socket.socket) -> Fork | None:
        """Waits until control wants the node to live; None if the run or the container is to end."""
        while await_message(control, self._signals):
            packet = receive(control)
            if not packet:
                return None
            wish = TO_SUPERVISOR.read(packet)
            if isinstance(wish, Fork):
                return wish
        return None

    def _give_up(self, control: socket.socket, order: Fork, why: Unable) -> int:
        with suppress(OSError), acting_as(self._user):
            leave_mark(self._inside.sockets, 1)
            with connect(self._inside.sockets / CONTROL_SOCKET) as as_node:
                as_node.send(encode(why))
        _send(control, Died(order.rank, os.getpid(), 1 << 8))
        return 1

    # -- while it lives --------------------------------------------------------------------------------------------

    def _attend(self, control: socket.socket, order: Fork) -> int:
        said, saying = os.pipe()
        log = open_log(self._inside.node.log)

        def body() -> None:
            control.close()
            os.dup2(saying, 1)
            os.dup2(saying, 2)
            self._signals.close()
            for mine in (saying, said, log):
                os.close(mine)  # the learner could block this process with them
            self._live(self._inside, order)

        self._learner = fork_worker(body)
        os.close(saying)
        os.set_blocking(said, False)
        status = self._watch(control, said, log)
        end_the_rest()
        self._pass_on(said, log)
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        leave_mark(self._inside.sockets, code)  # first: control may remove everything as soon as it is told
        _send(control, Died(order.rank, os.getpid(), status))
        return code

    def _watch(self, control: socket.socket, said: int, log: int) -> int:
        """Serves until the learner's process ends; gives its status."""
        watched = [control.fileno(), said, self._signals.waking]
        tell_s = time.monotonic() + _TELL_EVERY_S
        while True:
            readable, _, _ = select.select(watched, [], [], max(0.0, tell_s - time.monotonic()))
            if said in readable and not self._pass_on(said, log):
                watched.remove(said)
            if self._signals.waking in readable:
                self._signals.empty()
            if control.fileno() in readable:
                packet = receive(control)
                if packet:
                    self._obey(control, TO_SUPERVISOR.read(packet))
                else:
                    watched.remove(control.fileno())  # the learner has lost its own connection, too, and will end
            if (status := reap(self._learner)) is not None:
                self._learner = None
                return status
            if time.monotonic() >= tell_s:
                tell_s = time.monotonic() + _TELL_EVERY_S
                _send(control, Used(0.0 if self._learner is None else busy_s(self._learner)))

    def _linger(self, control: socket.socket, code: int) -> int:
        """Waits for the end of the run, or an order to live again: AGAIN then makes Docker restart the container."""
        if self._next_fork(control) is None:
            return code
        remove_mark(self._inside.sockets)
        return AGAIN

    def _obey(self, control: socket.socket, order: Fork | Do) -> None:
        match order:
            case Do(what=what) if what == KILL:
                self._signal(signal.SIGKILL)
            case Do(what=what) if what == PAUSE:
                _send(control, Paused(keeps_slot=not self._pause()))
            case Do(what=what) if what == RESUME:
                signal_all(self._learner, signal.SIGCONT)

    def _pause(self) -> bool:
        """Stops the learner's processes; gives whether none of them holds a compute slot, which would block others."""
        until_s = time.monotonic() + _ATTEMPTS_S
        while True:
            signal_all(self._learner, signal.SIGSTOP)
            # A process may take or release a slot until all of them stand still.
            while not all_stand_still(self._learner) and time.monotonic() < until_s:
                time.sleep(_ATTEMPT_S)
            if not hold_slot(self._inside.slots, self._learner):
                return True
            if time.monotonic() > until_s:
                return False
            signal_all(self._learner, signal.SIGCONT)
            time.sleep(_ATTEMPT_S)

    def _signal(self, number: signal.Signals) -> None:
        if self._learner is not None:
            with suppress(ProcessLookupError):
                os.kill(self._learner, number)

    @staticmethod
    def _pass_on(said: int, log: int) -> bool:
        """Copies the learner's output to its log and to the container's output; False at its end."""
        for _ in range(_CHUNKS_AT_ONCE):
            try:
                data = os.read(said, _CHUNK_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            for target in (log, 1):
                with suppress(OSError):  # a full disk, which the learner's journal reports
                    os.write(target, data)
        return True


def open_log(path: Path) -> int:
    """Opens the node's log for appending; /dev/null if the learner has replaced it by something else."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(OSError):
        log = os.open(path, flags, 0o644)
        if stat.S_ISREG(os.fstat(log).st_mode):
            return log
        os.close(log)
    return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _send(control: socket.socket, message: Message) -> None:
    send(control, encode(message))


def signal_all(learner: int | None, number: signal.Signals) -> None:
    """Signals all processes of the learner in one call, so that none of them can fork in between."""
    target = _ALL_PROCESSES if os.getpid() == 1 else learner
    if target is not None:
        with suppress(ProcessLookupError):
            os.kill(target, number)


def all_stand_still(learner: int | None) -> bool:
    return all(stands_still(each) for each in _others(learner))


def hold_slot(slots: Path, learner: int | None) -> bool:
    """Whether a process of the learner holds a compute slot."""
    return not holders(slots).isdisjoint(_others(learner))


def end_the_rest() -> None:
    """Kills all processes that the learner has left in the container."""
    if os.getpid() == 1:
        signal_all(None, signal.SIGKILL)


def _others(learner: int | None) -> set[int]:
    if os.getpid() != 1:
        return set() if learner is None else {learner}
    there = {int(each) for each in os.listdir("/proc") if each.isdecimal()}
    return {each for each in there if each != 1 and _is_ours(each)}


def _is_ours(pid: int) -> bool:
    """Whether this user may signal the process: root may have started others in the container."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
