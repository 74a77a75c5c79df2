"""What an algorithm forgot to await: Python mentions it in passing, and a run is to say it aloud.

Takes what Python warns of, gives words to the life in which it happened; touches how this process shows warnings.
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
    """From now on the current task, and those that it makes, have their own told."""
    _TELL.set(tell)


@contextmanager
def unawaited_are_told() -> Iterator[None]:
    """Within it they are told to whoever wants to know; all other warnings are shown as ever."""
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
