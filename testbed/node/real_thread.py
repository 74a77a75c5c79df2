"""The one thread of a node that computes, so that its network goes on meanwhile.

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
"""Before something is tried again that could not be done, where nobody else on the host tries."""


class ComputeThread:
    """Runs at the lowest priority that the host has, where that is allowed."""

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        """`pause_s`: before something that could not be done when idle is tried again."""
        self._pause_s = pause_s
        self.note: str | None = None
        """What is not as it should be."""
        self._loop = asyncio.get_running_loop()
        self._work: deque[Callable[[], None]] = deque()
        self._background: deque[Callable[[], bool | None]] = deque()
        self._changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="compute", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[], _Result]) -> _Result:
        """Its result, or what it raises. If nobody waits any more the work is done all the same."""
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
        """Call it again and again while there is nothing else to do, until it says that it is done.

        None says that it could do nothing now: it is called again a little later.
        """
        with self._changed:
            self._background.append(piece)
            self._changed.notify()

    def close(self) -> None:
        """Ends when the work under way is done; waits for that. What has not begun never does."""
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join()

    def _tell(
        self, settle: Callable[[Callable[[_Said], None], _Said], None], how: Callable[[_Said], None], said: _Said
    ) -> None:
        try:
            self._loop.call_soon_threadsafe(settle, how, said)
        except RuntimeError:  # the loop was closed: nobody is there to hear
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
