"""For how long something is waited for that processes are to do.

Takes what tells their processor time, gives words when it has been long enough; touches nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

IDLE_S = 120.0
"""Whoever has been asked for something, and for so long has not even used the processor, will not do it any more. On a
machine that is far too busy everybody has a turn within seconds."""
LONGEST_S = 1800.0
"""And for so long nobody is waited for, whatever they compute."""


class Waited:
    """From now on."""

    def __init__(self, busy_s: Callable[[], float], idle_s: float | None = None) -> None:
        """`idle_s` where something else than the processor may keep them for longer than `IDLE_S`."""
        self._busy_of = busy_s
        self._limit_s = IDLE_S if idle_s is None else idle_s
        self._since_s = self._idle_since_s = time.monotonic()
        self._busy_s = busy_s()

    def look(self) -> str | None:
        """Why it has been waited for long enough, in words; to be asked now and then."""
        now_s, computed_s = time.monotonic(), self._busy_of()
        if computed_s != self._busy_s:
            self._busy_s, self._idle_since_s = computed_s, now_s
        if now_s - self._idle_since_s >= self._limit_s:
            return f"has done nothing for {self._limit_s:g} s"
        if now_s - self._since_s >= LONGEST_S:
            return f"has not done it within {LONGEST_S:g} s"
        return None
