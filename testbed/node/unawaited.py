"""Reports coroutines that an algorithm forgot to await, of which Python only prints a warning.

Takes Python's warnings, gives messages to the node in which they occurred; changes how this process shows warnings.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

from testbed.code import place_words

_FORGOTTEN = re.compile(r"coroutine '.*' was never awaited")
_TELL: ContextVar[Callable[[str], None]] = ContextVar("tell")


def tell_of_unawaited(tell: Callable[[str], None]) -> None:
    """Sends the warnings of the current task, and of tasks that it makes, to `tell`."""
    _TELL.set(tell)


@contextmanager
def unawaited_are_told() -> Iterator[None]:
    """While entered, these warnings go to the `tell` of their task; all other warnings are shown as usual."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", _FORGOTTEN.pattern, RuntimeWarning)
        show = warnings.showwarning

        def tell(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            found = _FORGOTTEN.match(str(message))
            told = _TELL.get(None)
            if found is None or told is None:
                show(message, category, filename, lineno, file, line)
            else:  # the name alone: where a file lies is no part of a run
                told(f"{place_words(Path(filename).name, lineno)}{found.group()}: put `await` before it")

        warnings.showwarning = tell
        yield
