"""The command that leads a run, as the runtime sees it: what it shows, and what Ctrl-C and SIGTERM do to the run.

Takes what ends the run in good order, gives nothing; touches this process's signal handlers while it is entered, and
after SIGTERM has a thread that looks at the clock.
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
"""After SIGTERM, whose sender will not come back to say it again: until the run ends at once, and whatever goes on."""


class RunSignals:
    """The first signal ends the run in good order, the second one at once, the third whatever is going on.

    As long as there is nothing to end in good order, the first is as the second.
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
        """A line for the user, unless nothing but mistakes is to be said."""
        self._say(text)

    def watching(self) -> AbstractContextManager[View]:
        """Progress is shown while this is entered."""
        from testbed.cli.progress_view import progress_view

        return progress_view(quiet=self.quiet)

    def end_with(self, end: Callable[[], None], *, is_bounded: bool = False) -> None:
        """What ends the run in good order; `is_bounded`: one SIGTERM ends it within two seconds, whatever goes on.

        For a run that is all in this process, whose code may never let go of it.
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
