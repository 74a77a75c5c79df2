"""The command that leads a run, as the runtime sees it: its display, and the effect of Ctrl-C and SIGTERM.

Takes a function that ends the run in good order, gives nothing; changes this process's signal handlers while entered,
and has a thread with a time limit after SIGTERM.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from testbed.errors import ExitCode

if TYPE_CHECKING:
    from testbed.cli.progress_view import View

_AT_ONCE_S, _WHATEVER_S = 1.0, 0.8
"""Seconds after SIGTERM, which is sent only once: until the run ends at once, and until the process ends in any
case."""


class RunSignals:
    """The first signal ends the run in good order, the second one at once, the third one ends the process in any case.

    Before there is anything to end in good order, the first signal acts as the second.
    """

    def __init__(self, *, quiet: bool, say: Callable[[str], None]) -> None:
        self.quiet = quiet
        self._say = say
        self._end: Callable[[], None] | None = None
        self._is_bounded = False
        self._over = threading.Event()
        self._count = 0
        self._before: dict[int, Any] = {}

    def say(self, text: str) -> None:
        """Prints a line for the user, unless only errors are printed."""
        self._say(text)

    def watching(self) -> AbstractContextManager[View]:
        """Shows progress while entered."""
        from testbed.cli.progress_view import progress_view

        return progress_view(quiet=self.quiet)

    def end_with(self, end: Callable[[], None], *, is_bounded: bool = False) -> None:
        """Sets the function that ends the run in good order.

        With `is_bounded`, one SIGTERM ends the process within two seconds: for a run within this process, whose code
        may never return.
        """
        self._end, self._is_bounded = end, is_bounded

    def __enter__(self) -> Self:
        self._before = {each: signal.signal(each, self._signalled) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _lose_patience(self) -> None:
        for patience_s in (_AT_ONCE_S, _WHATEVER_S):
            if self._over.wait(patience_s):
                return
            os.kill(os.getpid(), signal.SIGTERM)

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 2:  # a researcher's code may swallow every exception
            os._exit(ExitCode.INTERRUPTED)
        if self._end is None or self._count > 1:
            raise KeyboardInterrupt
        self._end()
        if self._is_bounded and number == signal.SIGTERM:
            threading.Thread(target=self._lose_patience, name="patience", daemon=True).start()
        if not self.quiet:  # a buffered stream may be in the middle of a line of its own
            os.write(2, b"\nending the run; once more to end it at once\n")
