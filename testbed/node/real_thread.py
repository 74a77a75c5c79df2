"""The computing thread of a node, so that its network is served meanwhile.

Takes work, gives its results to the event loop; has a thread. Training goes first: evaluation is done in small pieces
when there is none.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")
_Said = TypeVar("_Said")

PAUSE_S = 0.005
"""Pause before idle work without a free slot is tried again, if no other node of the host tries."""


class ComputeThread:
    """Runs work at the lowest priority of the host, if allowed."""

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        """`pause_s`: pause before idle work without a free slot is tried again."""
        self._pause_s = pause_s
        self.note: str | None = None
        """A problem worth a note."""
        self._loop = asyncio.get_running_loop()
        self._work: deque[Callable[[], None]] = deque()
        self._background: deque[Callable[[], bool | None]] = deque()
        self._changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="compute", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[], _Result]) -> _Result:
        """Gives the work's result, or raises its exception. The work is done even if the caller has stopped waiting."""
        answer: asyncio.Future[_Result] = self._loop.create_future()

        def carry_out() -> None:
            try:
                result = work()
            except BaseException as problem:
                self._tell(settle, answer.set_exception, problem)
            else:
                self._tell(settle, answer.set_result, result)

        def settle(tell: Callable[[_Said], None], said: _Said) -> None:
            if not answer.done():
                tell(said)

        with self._changed:
            self._work.append(carry_out)
            self._changed.notify()
        return await answer

    def do_when_idle(self, piece: Callable[[], bool | None]) -> None:
        """Calls `piece` repeatedly while there is no other work, until it returns True.

        If it returns None, it could do nothing now and is called again a little later.
        """
        with self._changed:
            self._background.append(piece)
            self._changed.notify()

    def close(self) -> None:
        """Ends the thread after the work under way, and waits for that. Work that has not begun is dropped."""
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join()

    def _tell(
        self, settle: Callable[[Callable[[_Said], None], _Said], None], how: Callable[[_Said], None], said: _Said
    ) -> None:
        try:
            self._loop.call_soon_threadsafe(settle, how, said)
        except RuntimeError:  # the loop was closed: no caller waits for the result
            return

    def _run(self) -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        except OSError as problem:
            self.note = f"training has the priority of everything else: {problem.strerror}"
        while True:
            with self._changed:
                while not (self._over or self._work or self._background):
                    self._changed.wait()
                if self._over:
                    return
                work = self._work.popleft() if self._work else None
            if work is not None:
                work()
                continue
            is_done = self._background[0]()
            if is_done:
                self._background.popleft()
            elif is_done is None:
                with self._changed:
                    if not (self._over or self._work):
                        self._changed.wait(self._pause_s)
