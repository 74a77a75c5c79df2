"""What Ctrl-C and SIGTERM do to a run.

Takes what ends the run in good order, gives nothing; touches this process's signal handlers while it is entered.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from testbed.errors import ExitCode


class RunSignals:
    """The first signal ends the run in good order, the second one at once, the third whatever is going on.

    As long as there is nothing to end in good order, the first is as the second.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._end: Callable[[], None] | None = None
        self._count = 0
        self._before: dict[int, Any] = {}

    def end_with(self, end: Callable[[], None]) -> None:
        """What ends the run in good order."""
        self._end = end

    def __enter__(self) -> Self:
        self._before = {each: signal.signal(each, self._signalled) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 2:  # a researcher's code may swallow every exception
            os._exit(ExitCode.INTERRUPTED)
        if self._end is None or self._count > 1:
            raise KeyboardInterrupt
        self._end()
        if not self._quiet:  # a buffered stream may be in the middle of a line of its own
            os.write(2, b"\nending the run; once more to end it at once\n")
