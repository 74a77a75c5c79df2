"""The worker processes of a pool: started, given orders, heard, and ended.

Takes orders, gives outcomes; touches processes and pipes. No wait here is for a dead worker.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections import deque

from testbed.node.training_process import fork_worker, objects_shared
from testbed.runtimes.sim.pool_records import Order, Outcome, OutcomeReader, Work, WorkerLost
from testbed.runtimes.sim.pool_worker import Desk, work

_CHUNK = 65536


class _Orders:
    """A pipe that all workers read, and what does not fit into it yet."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        os.set_blocking(self.write_end, False)
        self._waiting: deque[bytes] = deque()

    def put(self, record: bytes) -> None:
        self._waiting.append(record)
        self.push()

    def push(self) -> None:
        """Write what fits; a record fits whole or not at all."""
        while self._waiting:
            try:
                os.write(self.write_end, self._waiting[0])
            except BlockingIOError:
                return
            self._waiting.popleft()

    @property
    def is_full(self) -> bool:
        return bool(self._waiting)


class WorkerProcesses:
    """Some workers forked from this process, which must not be changed in what the desk holds from then on."""

    def __init__(self, desk: Desk, workers: int) -> None:
        self._trainings, self._evaluations = _Orders(), _Orders()
        self._outcomes_read, self._outcomes_write = os.pipe()
        self._reader = OutcomeReader()
        self._lost: WorkerLost | None = None
        self._own = [self._trainings.write_end, self._evaluations.write_end, self._outcomes_read]
        self._pids: dict[int, int] = {}
        """By lifeline: a pipe that is never written to, and that is at its end when its worker is."""
        self._end = contextlib.ExitStack()
        self._end.enter_context(objects_shared())
        try:
            for _ in range(workers):
                self._fork(desk)
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in (self._trainings.read_end, self._evaluations.read_end, self._outcomes_write):
                os.close(descriptor)
        self._poll = select.poll()
        for descriptor in (self._outcomes_read, *self._pids):
            self._poll.register(descriptor, select.POLLIN)

    def _fork(self, desk: Desk) -> None:
        lifeline, held = os.pipe()
        mine = (*self._own, lifeline, *self._pids)

        def body() -> None:
            for descriptor in mine:  # as long as a worker could write orders, the others would not see their end
                os.close(descriptor)
            work(desk, self._trainings.read_end, self._evaluations.read_end, self._outcomes_write)

        self._pids[lifeline] = fork_worker(body)
        os.close(held)

    @property
    def pids(self) -> list[int]:
        return list(self._pids.values())

    def put(self, order: Order) -> None:
        """Hand out an order; whichever worker is free takes it. Of a lost worker `outcomes` tells."""
        if self._lost is not None:
            return
        pipe = self._evaluations if order.work is Work.EVALUATE else self._trainings
        try:
            pipe.put(order.pack())
        except BrokenPipeError:
            self._look_for_the_lost(list(self._pids))

    def outcomes(self) -> list[tuple[int, Outcome]]:
        """At least one outcome; raises WorkerLost when a worker is gone and no outcome is left to be read."""
        while True:
            if self._lost is not None:
                raise self._lost
            self._watch_for_room()
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            for pipe in (self._trainings, self._evaluations):
                if pipe.write_end in ready:
                    with contextlib.suppress(BrokenPipeError):  # the lifelines say who it was
                        pipe.push()
            if self._outcomes_read in ready:
                some = os.read(self._outcomes_read, _CHUNK)
                found = list(self._reader.feed(some))
                if found:
                    return found
            self._look_for_the_lost([lifeline for lifeline in self._pids if lifeline in ready])

    def _watch_for_room(self) -> None:
        for pipe in (self._trainings, self._evaluations):
            if pipe.is_full:
                self._poll.register(pipe.write_end, select.POLLOUT)
            else:
                with contextlib.suppress(KeyError):
                    self._poll.unregister(pipe.write_end)

    def _look_for_the_lost(self, lifelines: list[int]) -> None:
        for lifeline in lifelines:
            pid = self._pids.pop(lifeline)
            self._poll.unregister(lifeline)
            os.close(lifeline)
            _, status = os.waitpid(pid, 0)
            self._lost = WorkerLost(pid, os.waitstatus_to_exitcode(status))

    def give_up(self) -> None:
        """No outcome comes any more: the workers are killed, and `outcomes` says so."""
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
            self._lost = WorkerLost(pid, -signal.SIGKILL)

    def close(self) -> None:
        """End the workers at once: they hold nothing that would have to be kept. May be called again."""
        for lifeline, pid in self._pids.items():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(lifeline)
        self._pids.clear()
        for descriptor in self._own:
            os.close(descriptor)
        self._own.clear()
        self._end.close()
