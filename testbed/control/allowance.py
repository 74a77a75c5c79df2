"""How much somebody may say: as much as it likes for a while, and so much a second in the long run.

Takes times, gives how long to wait; touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable

BURST = 20_000
RATE_PER_S = 5000.0
"""A learner writes a few records a round, and no round is shorter than some milliseconds."""
_REST_S = 0.05
"""Whoever has used up everything waits so long: then some hundreds are read at once."""


class Allowance:
    """One speaker's; `on_excess` is called once, when it is used up for the first time."""

    def __init__(self, on_excess: Callable[[], None], burst: float = BURST, rate_per_s: float = RATE_PER_S) -> None:
        self._on_excess: Callable[[], None] | None = on_excess
        self._burst = burst
        self._rate_per_s = rate_per_s
        self._left = burst
        self._at_s: float | None = None

    def spend(self, now_s: float) -> float:
        """One more message was heard; seconds to wait before the next one is, 0 for none."""
        if self._at_s is not None:
            self._left = min(self._burst, self._left + (now_s - self._at_s) * self._rate_per_s)
        self._at_s = now_s
        self._left -= 1
        if self._left > 0:
            return 0.0
        if self._on_excess is not None:
            told, self._on_excess = self._on_excess, None
            told()
        return _REST_S
